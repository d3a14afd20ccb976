"""What the service decides: scenarios, the timeline of a payment, clock arithmetic, amounts, addresses,
identifiers, faults and errors. Pure functions of their arguments: no I/O, no clock, no other package of
paymock.
"""
