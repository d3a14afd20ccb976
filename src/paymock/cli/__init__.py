"""The command line. Each command is imported when it runs."""
