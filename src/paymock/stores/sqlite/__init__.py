"""The SQLite store: a file that several processes on one machine can share."""
