"""The server process: sockets, signals, the ready file and the banner."""
