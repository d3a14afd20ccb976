"""Speed of comparable mock servers: see __main__.py."""
