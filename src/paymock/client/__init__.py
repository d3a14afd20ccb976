"""An HTTP client of a paymock server, for commands and tests. It needs nothing but the standard library."""
