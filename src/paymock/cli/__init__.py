"""The command line. A module holds the commands of its name, or of one subject, and is imported when one of
them runs, so that the others do not slow it down.
"""
