"""Chains and assets, and what `pay_with` and `settlement` must be."""

from typing import Any

from tests.support.client import ORDER, with_member
from tests.web.api.bad_input.building import accepted, changed, unacceptable, unacceptable_values

NO_CHAIN = {
    "empty": "",
    "unknown": "solana",
    "capitals": "BSC",
    "capital": "Bsc",
    "leading space": " bsc",
    "trailing space": "bsc ",
    "trailing line feed": "bsc\n",
    "trailing NUL": "bsc\0",
    "number": "56",
    "CAIP-2": "eip155:56",
    "name": "BNB Smart Chain",
    "asset": "USDT",
    "list": "bsc,ethereum",
    "path": "../bsc",
    "SQL": "' OR 1=1--",
    "attribute of an object": "__class__",
    "member of an object": "constructor",
    "full-width": "ｂｓｃ",
    "Cyrillic": "bs\u0441",
    "wildcard": "*",
    "64 characters": "x" * 64,
    "65 characters": "x" * 65,
    "10,000 characters": "x" * 10_000,
}
NO_ASSET = {
    "empty": "",
    "unknown": "DOGE",
    "small letters": "usdt",
    "leading space": " USDT",
    "trailing space": "USDT ",
    "trailing line feed": "USDT\n",
    "trailing NUL": "USDT\0",
    "contract address": "0x55d398326f99059fF775485246999027B3197955",
    "name": "Tether USD",
    "of another chain": "POL",
    "with its chain": "bsc:USDT",
    "list": "USDT,USDC",
    "Cyrillic": "U\u0405DT",
    "attribute of an object": "__class__",
    "wildcard": "*",
    "64 characters": "X" * 64,
    "65 characters": "X" * 65,
}


def _route(chain: str, asset: str) -> Any:
    route = {"chain": chain, "asset": asset}
    return {**ORDER, "receive": {**ORDER["receive"], **route}, "pay_with": [route]}


CHAINS_ASSETS = [
    *unacceptable_values("receive.chain", NO_CHAIN, "pay_with[0].chain"),
    *unacceptable_values("pay_with[0].chain", NO_CHAIN),
    *unacceptable_values("refund_to.chain", NO_CHAIN),
    *unacceptable_values("receive.asset", NO_ASSET, "pay_with[0].asset"),
    *unacceptable_values("pay_with[0].asset", NO_ASSET),
    unacceptable("unknown chain on both sides", _route("solana", "USDT"),
                 "receive.chain", "pay_with[0].chain"),
    unacceptable("unknown asset on both sides", _route("bsc", "DOGE"), "receive.asset", "pay_with[0].asset"),
    unacceptable("asset of another chain on both sides", _route("bsc", "ETH"),
                 "receive.asset", "pay_with[0].asset"),
    unacceptable("pay with another chain", changed("pay_with[0].chain", "ethereum"), "pay_with[0].chain"),
    unacceptable("pay with another asset", changed("pay_with[0].asset", "USDC"), "pay_with[0].asset"),
    unacceptable("pay with another chain and asset",
                 changed("pay_with", [{"chain": "ethereum", "asset": "USDC"}]),
                 "pay_with[0].chain", "pay_with[0].asset"),
    unacceptable("receive on another chain", changed("receive.chain", "polygon"), "pay_with[0].chain"),
    unacceptable("receive another asset", changed("receive.asset", "BNB"), "pay_with[0].asset"),
    accepted("a chain's own coin", _route("bsc", "BNB")),
    accepted("another token", _route("bsc", "USDC")),
    accepted("another chain", with_member(_route("ethereum", "ETH"), "refund_to", None)),
    accepted("testnet", with_member(_route("bsc_testnet", "USDT"), "refund_to", None)),
]  # fmt: skip

_PLACE = ORDER["pay_with"][0]

PAY_WITH_SETTLEMENT = [
    unacceptable("no item", changed("pay_with", []), "pay_with"),
    unacceptable("two items", changed("pay_with", [_PLACE, {"chain": "bsc", "asset": "USDC"}]), "pay_with"),
    unacceptable("the same item twice", changed("pay_with", [_PLACE, _PLACE]), "pay_with"),
    unacceptable("1,000 items", changed("pay_with", [_PLACE] * 1000), "pay_with"),
    unacceptable("second item null", changed("pay_with", [_PLACE, None]), "pay_with", "pay_with[1]"),
    unacceptable("items of another item", changed("pay_with", [[_PLACE]]), "pay_with[0]"),
    unacceptable(
        "two nulls", changed("pay_with", [None, None]), "pay_with", "pay_with[0]", "pay_with[1]"
    ),
    unacceptable("empty item", changed("pay_with", [{}]), "pay_with[0].chain", "pay_with[0].asset"),
    unacceptable("item with null members", changed("pay_with", [{"chain": None, "asset": None}]),
                 "pay_with[0].chain", "pay_with[0].asset"),
    unacceptable("item with an amount", changed("pay_with", [{**_PLACE, "amount": "1"}]),
                 "pay_with[0].amount"),
    unacceptable("item with a typo", changed("pay_with", [{"chain": "bsc", "assets": "USDT"}]),
                 "pay_with[0].asset", "pay_with[0].assets"),
    unacceptable("no mode", changed("settlement", {}), "settlement.mode"),
    unacceptable("unknown member beside the mode", changed("settlement.speed", "fast"), "settlement.speed"),
    unacceptable("unknown member for the mode", changed("settlement", {"Mode": "x"}),
                 "settlement.mode", "settlement.Mode"),
    *unacceptable_values(
        "settlement.mode",
        {
            "empty": "",
            "another": "cross_chain_swap",
            "capitals": "SAME_CHAIN_MERCHANT_PAYOUT",
            "hyphens": "same-chain-merchant-payout",
            "leading space": " same_chain_merchant_payout",
            "trailing space": "same_chain_merchant_payout ",
            "trailing line feed": "same_chain_merchant_payout\n",
            "trailing NUL": "same_chain_merchant_payout\0",
            "cut off": "same_chain",
            "array of the mode": ["same_chain_merchant_payout"],
            "10,000 characters": "x" * 10_000,
        },
    ),
]  # fmt: skip
