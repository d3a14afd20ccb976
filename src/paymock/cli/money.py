"""Amounts for people: raw units, and whole tokens where the decimals of the asset are known.

The decimals are those of the built-in catalog, or of the one that PAYMOCK_CATALOG names, as for `paymock
serve`. The server is not asked: the journal of the sandbox would show it.
"""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from paymock.app.catalog_file import load_catalog
from paymock.resources.catalog import CatalogError
from paymock.rules.amounts import in_tokens
from paymock.schemas.catalog import Asset

_ONE_TOKEN = 10**18
_USUAL_ASSET = "USDT"


def amount(raw: str, chain: str, asset: str) -> str:
    """`1010000000000000000 (1.01 USDT)`, or `1010000000000000000 raw units of USDT`."""
    short = tokens(raw, chain, asset)
    return f"{raw} raw units of {asset}" if short is None else f"{raw} ({short})"


def tokens(raw: str, chain: str, asset: str) -> str | None:
    """`1.01 USDT`, or None where the decimals are not known."""
    known = _assets(chain).get(asset)
    if known is None:
        return None
    return f"{in_tokens(int(raw), known.decimals)} {known.symbol}"


def usual_asset(chain: str) -> str:
    """What is received on `chain` unless somebody says otherwise: USDT, or the first token there is."""
    assets = _assets(chain)
    others = [asset.id for asset in assets.values() if not asset.native]
    return _USUAL_ASSET if _USUAL_ASSET in assets or not others else others[0]


def one_token(chain: str, asset: str) -> str:
    """One whole token in raw units; where the decimals are not known, as if there were 18."""
    known = _assets(chain).get(asset)
    return str(_ONE_TOKEN if known is None else 10**known.decimals)


def _assets(chain: str) -> Mapping[str, Asset]:
    return _known(os.environ.get("PAYMOCK_CATALOG") or None).get(chain, {})


@cache
def _known(file: str | None) -> Mapping[str, Mapping[str, Asset]]:
    try:
        catalog = load_catalog(Path(file) if file else None)
    except CatalogError:
        return {}
    return {chain: catalog.assets(chain) or {} for chain in catalog.chains}
