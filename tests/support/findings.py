"""A finding of the judge, as it is sent to the server."""

from tests.support.contract import Json


def finding(**changes: object) -> Json:
    """A finding without a payment, with changes."""
    return {
        "rule": "lost_sale",
        "severity": "money",
        "scenario": "happy_path",
        "faults": ["getPayment@0: drop"],
        "token": "happy_path/getPayment@0=drop",
        "explanation": "The payment was `completed`, and the goods did not go out.",
        "story": [
            "Order:       order-1.",
            "Network:     getPayment gets `drop`.",
            "Goods:       never went out.",
        ],
        "order_id": "order-1",
        "payment_id": None,
        "course": ["   0 s  Created  createPayment 201 new, getPayment ✗ drop", "  45 s  completed"],
        "command": "paymock verify --only happy_path/getPayment@0=drop",
        **changes,
    }
