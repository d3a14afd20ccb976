"""The service over HTTP. `app` assembles it, `application` is the ASGI application that answers requests."""
