"""Slow and hostile clients, and what the healthy ones notice of them."""
