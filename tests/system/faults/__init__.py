"""Fault injection under load. `python -m tests.system.faults --write` writes docs/fault-tests.md."""
