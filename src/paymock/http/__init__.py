"""The HTTP/1.1 server: connections, requests, responses, routing, and the checks before the handlers."""
