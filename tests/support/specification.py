"""The tables of the specification, which tests hold every layer to."""

COURSES = {
    "happy_path": [
        (0, "awaiting_payment"),
        (5, "payment_detected"),
        (13, "payment_finalized"),
        (25, "settlement_pending"),
        (30, "settlement_submitted"),
        (45, "completed"),
    ],
    "no_payment_expired": [(0, "awaiting_payment"), (30, "expired")],
    "underpaid_expired": [(0, "awaiting_payment"), (5, "payment_detected"), (30, "underpaid_expired")],
    "overpaid_review": [(0, "awaiting_payment"), (5, "payment_detected"), (13, "overpaid_review")],
    "asset_mismatch": [(0, "awaiting_payment"), (5, "payment_detected"), (7, "manual_review")],
    "late_payment": [(0, "awaiting_payment"), (30, "expired"), (35, "manual_review")],
    "settlement_failed": [
        (0, "awaiting_payment"),
        (5, "payment_detected"),
        (13, "payment_finalized"),
        (25, "settlement_pending"),
        (30, "settlement_submitted"),
        (45, "failed"),
    ],
    "manual_review": [
        (0, "awaiting_payment"),
        (5, "payment_detected"),
        (13, "payment_finalized"),
        (25, "manual_review"),
    ],
}
"""The statuses of a payment in each scenario, with the second at which each begins."""

CONFIRMED_FROM_5 = [
    (5, "pending", 0),
    (7, "confirming", 4),
    (9, "confirming", 8),
    (11, "confirming", 12),
    (13, "finalized", 16),
]
DEPOSITS = {
    "happy_path": CONFIRMED_FROM_5,
    "no_payment_expired": [],
    "underpaid_expired": CONFIRMED_FROM_5,
    "overpaid_review": CONFIRMED_FROM_5,
    "asset_mismatch": [(5, "pending", 0), (7, "rejected", 0)],
    "late_payment": [(second + 30, status, seen) for second, status, seen in CONFIRMED_FROM_5],
    "settlement_failed": CONFIRMED_FROM_5,
    "manual_review": CONFIRMED_FROM_5,
}
"""(second, deposit status, confirmations) of the only deposit of a payment in each scenario."""

TRANSITIONS = {
    ("awaiting_payment", "payment_detected"),
    ("payment_detected", "payment_finalized"),
    ("payment_finalized", "settlement_pending"),
    ("settlement_pending", "settlement_submitted"),
    ("settlement_submitted", "completed"),
    ("settlement_submitted", "failed"),
    ("awaiting_payment", "expired"),
    ("payment_detected", "underpaid_expired"),
    ("payment_detected", "overpaid_review"),
    ("payment_finalized", "overpaid_review"),
    ("payment_detected", "manual_review"),
    ("payment_finalized", "manual_review"),
    ("expired", "manual_review"),
}
"""From one status of a payment to another. "payment with an observed transfer" and "payment with finalized
funding" stand for the statuses in which such a payment can be.
"""

DEPOSIT_TRANSITIONS = {("pending", "confirming"), ("confirming", "finalized"), ("pending", "rejected")}


WAITING = ("pay", "Waiting for your payment", False)
DETECTED = ("detected", "Payment detected", False)
MISMATCH = ("review", "A transfer in another asset arrived", False)
RECEIVED = ("received", "Payment received", False)
IN_REVIEW = ("review", "In review", True)

SHOWN = {
    "happy_path": [(0, *WAITING), (5, *DETECTED), (13, *RECEIVED), (45, "complete", "Paid", True)],
    "no_payment_expired": [(0, *WAITING), (30, "expired", "The time is up", False)],
    "underpaid_expired": [
        (0, *WAITING),
        (5, "detected", "Part of your payment has arrived", False),
        (30, "expired", "Partially paid, and the time is up", True),
    ],
    "overpaid_review": [(0, *WAITING), (5, *DETECTED), (13, "review", "In review: you paid too much", True)],
    "asset_mismatch": [(0, *WAITING), (5, *MISMATCH), (7, *IN_REVIEW)],
    "late_payment": [(0, *WAITING), (30, "expired", "The time is up", False), (35, *IN_REVIEW)],
    "settlement_failed": [
        (0, *WAITING),
        (5, *DETECTED),
        (13, *RECEIVED),
        (45, "failed", "We received your payment but could not pass it on to the shop", True),
    ],
    "manual_review": [(0, *WAITING), (5, *DETECTED), (13, *RECEIVED), (25, *IN_REVIEW)],
}
"""(second, view, headline, final) of each view of a payment, by its scenario."""
