"""uvicorn's HTTP protocol with limits and deadlines, the list of open connections, and the fast path that
answers simple requests without ASGI.
"""
