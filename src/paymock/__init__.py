"""paymock: a mock of a crypto payment-collection service."""

__version__ = "0.4.0"
