"""The business rules: how a payment develops over time, and the values, identifiers and errors of the domain.
Pure functions of their arguments: no I/O, no reading of a clock, no import of another package of paymock.
"""
