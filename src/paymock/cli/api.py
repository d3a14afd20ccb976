"""What commands that call the API share: types, the client, its errors, and a temporary server."""

import functools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from paymock.cache import MAX_JOURNAL
from paymock.cli.options import NEWEST, Choice, api_key, server_url
from paymock.client.http import DEFAULT_TIMEOUT, Json, Refused, Unreachable
from paymock.client.sandbox import NotReached, Sandbox
from paymock.rules.identifiers import PAYMENT_PREFIX
from paymock.rules.scenarios import SCENARIOS, PaymentStatus
from paymock.schemas import control
from paymock.schemas.public import OPERATION_IDS
from paymock.schemas.scenarios import is_name
from paymock.settings import Settings
from paymock.text import escape_control


class ScenarioName(Choice):
    """The name of a scenario. The built-in ones are completed; which others there are, the server knows."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value) if is_name(str(value)) else super().convert(value, param, ctx)


STATUS = Choice([status.value for status in PaymentStatus])
STATUS.guesses = {
    "paid": "completed", "success": "completed", "succeeded": "completed", "done": "completed",
    "pending": "awaiting_payment", "unpaid": "awaiting_payment", "review": "manual_review|overpaid_review",
}  # fmt: skip
SCENARIO = ScenarioName(list(SCENARIOS))
OPERATION = Choice(OPERATION_IDS)

_WORDS = {
    "X-Mock-Scenario": "SCENARIO", "Idempotency-Key": "--idempotency-key",
    "order_id_prefix": "--order-prefix", "order_id": "--order",
}  # fmt: skip
"""Words of messages of the API, and those for the terminal."""


class CommandError(click.ClickException):
    """An error of a command, with the lines of its message; and a code, for --json."""

    code = "failed"

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(map(escape_control, lines)))


class RequestRefused(CommandError):
    """The server refused the request. `document` is its error, as the API sends it."""

    exit_code = 1

    def __init__(self, code: str, message: str, details: Sequence[Json] = (), **more: Any) -> None:
        self.document: Json = {"code": code, "message": message, **more}
        if not details:
            for word, own in _WORDS.items():
                message = message.replace(word, own)
            super().__init__(f"{code}: {message}")
            return
        self.document["details"] = details
        known: dict[str, str] = {}  # the option or argument that a member of the body comes from
        for one in click.get_current_context().command.params:
            if isinstance(one, click.Argument):
                known |= {word.lower(): word for word in re.findall("[A-Z_]+", one.metavar or "")}
            else:
                known[one.name or ""] = one.opts[0]
        problems: dict[str, None] = {}  # each once
        for problem in details:
            field = problem["field"]
            shown = next((known[name] for name in field.split(".") if name in known), field)
            problems[f"  {shown}: {problem['message']}"] = None
        super().__init__(f"{code}:", *problems)


class ServerUnreachable(CommandError):
    """No server answers, or the server is not paymock."""

    exit_code = 3
    code = "unreachable"


class WaitTimedOut(CommandError):
    """The expected event did not come in time."""

    exit_code = 4
    code = "timeout"


@contextmanager
def api_errors() -> Iterator[None]:
    """Turn errors of the client into errors of the command, with one line for each invalid option."""
    try:
        yield
    except Refused as refused:
        raise RequestRefused(**refused.error) from None
    except Unreachable as unreachable:
        raise ServerUnreachable(str(unreachable)) from None
    except NotReached as error:
        if error.timed_out:
            raise WaitTimedOut(str(error)) from None
        raise RequestRefused("status_unreachable", str(error)) from None


def decode_reply(content: bytes, reply_type: type) -> Any:
    """The body of a reply as JSON. Raises ValueError if it does not fit `reply_type`."""
    try:
        value = json.loads(content)
        msgspec.convert(value, reply_type)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(error) from None
    return value


class ApiClient(Sandbox):
    """A sandbox. A reply that does not fit its schema is not one of paymock: that raises Unreachable."""

    def _decoder(self, reply: str | None) -> Callable[[bytes], Any]:
        if reply == "str":
            return super()._decoder(reply)
        return functools.partial(decode_reply, reply_type=getattr(control, reply) if reply else type(None))

    def checkout_url(self, payment_id: str) -> str:
        return f"{self.url}/checkout/{payment_id}"

    def resolve(self, payment: str | None, timeout: float = DEFAULT_TIMEOUT) -> str:
        """The id of the payment with this id or order; None stands for the newest. What begins like an id is
        one. Raises RequestRefused if there is none.
        """
        if payment == "":
            raise click.UsageError("The payment ID is empty.")
        if payment is not None and payment.startswith(PAYMENT_PREFIX):
            return payment
        order = None if payment == NEWEST else payment
        found = self.call("listPayments", query={"order_id": order, "limit": 1}, timeout=timeout)["data"]
        if found:
            return str(found[0]["id"])
        message = "This sandbox has no payments. `paymock create` creates one."
        if order is not None:
            message = f"This sandbox has no payment with the id or the order {order!r}."
        raise RequestRefused("payment_not_found", message)


def with_client(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options --url and --key to a command, and call it with a client of that server."""

    @server_url
    @api_key
    @functools.wraps(command)
    def wrapper(*, url: str, key: str, **options: Any) -> None:
        with api_errors(), ApiClient(url, key) as client:
            command(client, **options)

    return wrapper


def split_payment(arguments: Sequence[str], *, has_value: bool) -> tuple[str | None, str | None]:
    """The arguments `[PAYMENT] [VALUE]`. A single one is the value, unless an option `has_value`."""
    if len(arguments) > 2:
        raise click.UsageError(f"Got unexpected extra argument ({arguments[2]})")
    if len(arguments) == 1 and not has_value:
        return None, arguments[0]
    payment, value, *_ = *arguments, None, None
    return payment, value


@contextmanager
def temporary_server(scenarios: Path | None = None) -> Iterator[str]:
    """Run a server in a thread, with the longest journal and the scenarios of a file, and yield its URL."""
    # Imported here, since they take long to import.
    from paymock.payments.files import FileError
    from paymock.server.process import StartError
    from paymock.server.run import serve_in_thread

    try:
        settings = Settings(port=0, scenarios=scenarios, access_log=False, journal=MAX_JOURNAL)
        with serve_in_thread(settings, None, grace=0) as url:
            yield url
    except (StartError, FileError) as error:
        raise ServerUnreachable(str(error)) from None
