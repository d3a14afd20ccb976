"""paymock beside what else one could pick: see __main__.py."""
