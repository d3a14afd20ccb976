"""All rows, one for each request, by subject."""

from collections.abc import Mapping

from tests.web.api.bad_input.amounts_and_addresses import ADDRESSES, AMOUNTS
from tests.web.api.bad_input.building import Case
from tests.web.api.bad_input.content import CONTENT_TYPE, SIZE
from tests.web.api.bad_input.expiry_and_metadata import EXPIRES_AT, METADATA
from tests.web.api.bad_input.framing import FRAMING
from tests.web.api.bad_input.json_syntax import JSON_SYNTAX
from tests.web.api.bad_input.json_types import TYPES
from tests.web.api.bad_input.paths import METHODS, PATHS
from tests.web.api.bad_input.request_headers import AUTH, IDEMPOTENCY_KEY, SCENARIO
from tests.web.api.bad_input.routes import CHAINS_ASSETS, PAY_WITH_SETTLEMENT
from tests.web.api.bad_input.webhooks import WEBHOOK

GROUPS: Mapping[str, list[Case]] = {
    "auth": AUTH,
    "idempotency key": IDEMPOTENCY_KEY,
    "scenario": SCENARIO,
    "JSON": JSON_SYNTAX,
    "types": TYPES,
    "amounts": AMOUNTS,
    "addresses": ADDRESSES,
    "chains and assets": CHAINS_ASSETS,
    "pay_with and settlement": PAY_WITH_SETTLEMENT,
    "expires_at": EXPIRES_AT,
    "metadata": METADATA,
    "content type": CONTENT_TYPE,
    "size": SIZE,
    "methods": METHODS,
    "paths": PATHS,
    "webhooks": WEBHOOK,
    "framing": FRAMING,
}
