"""What is recorded of each request: access log, journal entry, metrics."""
