"""The runtime of sandboxes: their records in a store, their clock, and who is told of changes."""
