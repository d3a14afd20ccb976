"""The commands that talk to a running server, and the demo. Each module is imported when its command runs."""
