"""The server process: sockets, a supervisor of workers, signals, the ready file and the banner."""
