"""Fault injection under load: `python -m tests.system.faults`."""
