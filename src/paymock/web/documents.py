"""The two OpenAPI documents, which `scripts/update-docs` makes from the operations and the schemas. What
differs between servers is filled in when they are served. Specification: "Versioning", 2.
"""

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from paymock.http.requests import Request
from paymock.http.responses import VARY, Response, compressible
from paymock.payments.files import Catalog
from paymock.rules.scenarios import SCENARIOS, Scenario
from paymock.rules.timeline import summarize
from paymock.settings import DEFAULT_PORT

PUBLIC, CONTROL = "openapi.yaml", "openapi-control.yaml"
"""The names of the two files."""

DEFAULT_SERVER = f"http://127.0.0.1:{DEFAULT_PORT}"
"""The base URL in a document that no server has served."""

_EXAMPLES = ("bsc", "USDT", "USDC", "0x55d398326f99059fF775485246999027B3197955")
"""What the examples in the files name: a chain, a token, another asset, the contract of the token."""

_EXAMPLE = re.compile(r"^( +(?:- )?(?:\w+: )?)(bsc|USDT|USDC)$", re.MULTILINE)


class OpenApiDocument:
    """The handler that answers with a document. Its base URL is the one that the client used, so that clients
    generated from it call this server.
    """

    def __init__(self, name: str, catalog: Catalog, scenarios: Mapping[str, Scenario]) -> None:
        own = [scenario for name, scenario in scenarios.items() if name not in SCENARIOS]
        text = Path(__file__).with_name(name).read_text(encoding="utf-8")
        self._text = with_catalog(with_scenarios(text, own), catalog)

    async def __call__(self, request: Request) -> Response:
        body = self._text.replace(DEFAULT_SERVER, base_url(request), 1).encode()
        etag = f'"{blake2b(body, digest_size=8).hexdigest()}"'
        headers = (("Cache-Control", "no-cache"), ("ETag", f"W/{etag}"))
        known = request.headers.get(b"if-none-match", b"")
        if etag.encode() in known or known == b"*":
            return Response(304, content_type=None, headers=(*headers, VARY))
        return compressible(request, body, "application/yaml; charset=utf-8", headers)


def with_scenarios(text: str, scenarios: Sequence[Scenario]) -> str:
    """Add scenarios to the table and to the enumeration in a document."""
    rows = [summarize(scenario) for scenario in scenarios]
    last_row = re.compile(r"^( +)\| `manual_review` .*\n", re.MULTILINE)
    enumeration = re.compile(r"(\n    Scenario:\n.*?- manual_review\n)(.*?_MANUAL_REVIEW\n)", re.DOTALL)

    def with_rows(match: re.Match[str]) -> str:
        table = match[0]
        for row in rows:
            description = row.description.replace("|", "\\|")
            table += f"{match[1]}| `{row.name}` | `{row.final_status}` | {row.after} | {description} |\n"
        return table

    names = "".join(f'      - "{row.name}"\n' for row in rows)  # quoted: `no` would be a boolean
    constants = "".join(f"      - SCENARIO_{row.name.upper()}\n" for row in rows)
    return enumeration.sub(rf"\1{names}\2{constants}", last_row.sub(with_rows, text))


def with_catalog(text: str, catalog: Catalog) -> str:
    """Put the chains and assets of a catalog into the examples of a document."""
    receive = example_payment(catalog)["receive"]
    chain, assets = catalog.chains[receive["chain"]], catalog.assets(receive["chain"]) or {}
    token = assets[receive["asset"]]
    own = (chain.id, token.id, catalog.another_asset(chain.id, token.id), str(token.contract_address))
    if own == _EXAMPLES:
        return text
    values = dict(zip(_EXAMPLES, own, strict=True))
    text = _EXAMPLE.sub(lambda match: f'{match[1]}"{values[match[2]]}"', text)
    contract = _EXAMPLES[-1]
    text = text.replace(f"{contract}@56/", f"{own[-1]}@{chain.chain_id}/").replace(contract, own[-1])
    for name, listed in (("chains", catalog.chains), ("assets", assets)):
        value = json.dumps({"data": msgspec.to_builtins([*listed.values()])})  # JSON is YAML
        whole = rf"(?m)^(    {name}:\n      summary: .*\n      value:)\n(?: {{8}}.*\n)+"
        text = re.sub(whole, "\\1 " + value.replace("\\", r"\\") + "\n", text)
    for name, shown in (("chain", chain), ("asset", token)):  # of the checkout
        value = msgspec.json.encode(shown).decode().replace("\\", r"\\")
        text = re.sub(rf"(?m)^( {{8}}{name}:)\n {{10}}id: .*\n(?: {{10}}.*\n)+", f"\\1 {value}\n", text)
    return text


def example_payment(catalog: Catalog) -> dict[str, Any]:
    """A create request with every field, for a token of the first chain in the catalog."""
    chain, row = next(iter(catalog.chains.items()))
    asset = catalog.another_asset(chain, row.native_asset)
    return {
        "order_id": "order-1001",
        "receive": {
            "chain": chain,
            "asset": asset,
            "amount": "1000000000000000000",
            "address": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        },
        "settlement": {"mode": "same_chain_merchant_payout"},
        "pay_with": [{"chain": chain, "asset": asset}],
        "refund_to": {"chain": chain, "address": "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"},
        "expires_at": "2099-01-31T12:30:00Z",
        "metadata": {"customer_id": "c_1"},
    }


def base_url(request: Request) -> str:
    """The base URL that the client used. A proxy in front of the server tells its scheme."""
    scheme = "https" if request.headers.get(b"x-forwarded-proto") == b"https" else "http"
    host = request.headers.get(b"host", b"").decode("latin-1").rstrip(":")
    return f"{scheme}://{host}{request.root_path}" if host else DEFAULT_SERVER
