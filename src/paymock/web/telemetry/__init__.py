"""What is said of each request: the access log, the journal of its sandbox, the metrics."""
