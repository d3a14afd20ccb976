"""An HTTP client of a paymock server, for the command line and for tests. It uses the standard library only,
so that a test that drives a remote server imports nothing else.
"""
