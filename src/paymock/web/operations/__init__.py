"""The operations, each a row that says its route, handler, types and documentation; and their faults."""
