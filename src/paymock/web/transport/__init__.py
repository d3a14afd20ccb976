"""uvicorn's HTTP protocol with limits and deadlines, the connections that are open, and the fast path that
answers simple requests without ASGI.
"""
