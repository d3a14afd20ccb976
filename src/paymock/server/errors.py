"""The exception of a server that cannot start."""


class StartError(Exception):
    """The server cannot start. The message is one line for the terminal."""
