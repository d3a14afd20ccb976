"""The server process: from settings to bound sockets, one uvicorn server or a supervisor with several
workers, signal handling, the ready file and the banner.
"""
