"""What an application has seen of the service, and what is wrong with its requests."""
