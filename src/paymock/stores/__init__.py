"""Persistence: the store protocol and its three implementations, in memory, in an SQLite file and in Redis. A
store keeps opaque bytes under a sandbox and a key, and knows neither payments nor HTTP. `base`
states what every store guarantees, and one contract test suite checks it.
"""
