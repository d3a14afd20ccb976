"""Requests, responses, routing, and the checks that precede the handlers: host, API key, headers."""
