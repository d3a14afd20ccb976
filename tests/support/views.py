"""What a customer reads in each scenario: the seven views of a checkout."""

WAITING = ("pay", "Waiting for your payment", False)
DETECTED = ("detected", "Payment detected", False)
RECEIVED = ("received", "Payment received", False)
IN_REVIEW = ("review", "In review", True)

SHOWN = {
    "happy_path": [(0, *WAITING), (5, *DETECTED), (13, *RECEIVED), (45, "complete", "Paid", True)],
    "no_payment_expired": [(0, *WAITING), (30, "expired", "The time is up", False)],
    "underpaid_expired": [
        (0, *WAITING),
        (5, *DETECTED),
        (13, "detected", "A part has arrived", False),
        (30, "expired", "Partially paid, and the time is up", True),
    ],
    "overpaid_review": [
        (0, *WAITING),
        (5, *DETECTED),
        (13, "review", "In review: more than was due", True),
    ],
    "asset_mismatch": [(0, *WAITING), (5, *DETECTED), (7, *IN_REVIEW)],
    "late_payment": [(0, *WAITING), (30, "expired", "The time is up", False), (35, *IN_REVIEW)],
    "settlement_failed": [
        (0, *WAITING),
        (5, *DETECTED),
        (13, *RECEIVED),
        (45, "failed", "Your payment arrived; the payout failed", True),
    ],
    "manual_review": [(0, *WAITING), (5, *DETECTED), (13, *RECEIVED), (25, *IN_REVIEW)],
}
"""(second, view, headline, final) of each view of a payment, by its scenario."""
