"""Faults under load, and what they cost. `python -m benchmarks.faults` writes docs/fault-tests.md."""
