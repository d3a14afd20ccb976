"""Everything that clients do, for a long time, with faults: what a server has of it must not grow."""
