"""The server process: sockets, uvicorn or a supervisor of workers, signals, the ready file and the banner."""
