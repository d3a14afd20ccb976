"""The store in an SQLite file, which several processes on one machine can share."""
