"""Slow and hostile clients, and their effect on regular ones."""
