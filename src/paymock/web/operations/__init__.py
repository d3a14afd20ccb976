"""The operations: a handler and a row of documentation for each."""
