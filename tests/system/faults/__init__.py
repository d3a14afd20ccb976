"""Faults under load, and what they cost. `python -m tests.system.faults` writes docs/fault-tests.md."""
