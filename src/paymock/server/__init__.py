"""From settings to a running server: sockets, processes, signals, the ready file."""
