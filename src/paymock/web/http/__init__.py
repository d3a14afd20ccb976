"""Requests, responses, routes, and what every request is checked for before a handler sees it: host, API key,
headers.
"""
