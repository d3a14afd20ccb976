"""Where records are kept: in memory, in an SQLite file, in Redis. A store holds opaque bytes under a sandbox
and a key; `base` states what every store promises.
"""
