"""Real servers, Redis engines and proxies for tests and benchmarks, and what the system says about processes.

Tests and benchmarks both import from here, and never from each other.
"""
