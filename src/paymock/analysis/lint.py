"""What is wrong with the requests of an application, whatever came of it.

Pure functions over the journal of a sandbox and its payments, as `paymock.testing.Sandbox` returns them. A
pause counts if real or virtual time has passed: where the clock is frozen, an injected sleep advances it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from paymock.rules.errors import RETRY_AFTER_SECONDS
from paymock.rules.faults import parse_fault
from paymock.rules.identifiers import KEY_LIFETIME
from paymock.rules.scenarios import TERMINAL_STATUSES
from paymock.rules.times import parse_rfc3339
from paymock.schemas.public import CREATE_PAYMENT, GET_PAYMENT, PAYMENT_READS
from paymock.text import escape_control, format_seconds

MAX_READS_AFTER_END = 4
"""How many reads may follow a reply that showed a terminal status."""

MAX_READS_PER_SECOND = 10

_SHOWN_IDS = 3
"""How many ids of requests the text of a warning has."""

_SECRETS = (
    ("an API key", re.compile(r"\b(?:mk|sk|rk)_(?:test|live)_\w+|\bwhsec_\w+")),
    ("a bearer token", re.compile(r"\b[Bb]earer +[\w.~+/-]{16,}|\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.")),
    ("a private key", re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")),
    ("a password in a URL", re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@]*:[^\s/@]+@")),
    ("a mnemonic", re.compile(r"^[a-z]{3,8}(?: [a-z]{3,8}){11}(?:(?: [a-z]{3,8}){3}){0,4}$")),
)
_PRIVATE_KEY = re.compile(r"\b(0[xX])?[0-9a-fA-F]{64}\b")
"""Matches digests, too: without `0x` in an order id, or in a member with a DIGEST_NAME, it is one."""

_DIGEST_NAME = re.compile("hash|sha|digest|checksum|tx|transaction", re.IGNORECASE)


class LintWarning(NamedTuple):
    """What is wrong: the name of the rule, the order and the payment as far as they are known, a sentence
    that says what is wrong and what would be right, and the ids of the requests, oldest first.
    """

    rule: str
    order_id: str | None
    payment_id: str | None
    explanation: str
    request_ids: tuple[str, ...]

    def __str__(self) -> str:
        about = f"order {self.order_id}" if self.order_id else self.payment_id
        text = ": ".join(filter(None, (self.rule, about, self.explanation)))
        shown, more = self.request_ids[:_SHOWN_IDS], len(self.request_ids) - _SHOWN_IDS
        if shown:
            text += f" ({', '.join(shown)}{f' and {more} more' if more > 0 else ''})"
        return escape_control(text)


class _Request:
    """An entry of a journal. Times are in milliseconds since the epoch; `began` is not earlier than the reply
    that the client has waited for before it sent the request.
    """

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.id: str = entry["request_id"]
        self.operation: str | None = entry["operation"]
        self.order_id: str | None = entry["order_id"]
        self.payment_id: str | None = entry["payment_id"]
        self.status: int = entry["status"]
        self.fault: str | None = entry["fault"]
        self.idempotency: str | None = entry["idempotency"]
        self.answered = parse_rfc3339(entry["at"]) or 0
        self.began = self.answered - max(0, int(entry["duration_ms"]) - 1)  # times are rounded down
        self.virtual = parse_rfc3339(entry.get("virtual_at") or "") or 0
        self.fetch_site: str | None = entry.get("fetch_site")
        fault = parse_fault(self.fault or "")
        self.shown: str | None = "unknown" if fault and fault.part == "status" else entry["shown"]
        usual = RETRY_AFTER_SECONDS if self.status in (429, 503) else "none"
        self.retry_after = str((fault and fault.retry_after) or usual)

    def pause_since(self, earlier: "_Request") -> int:
        """The milliseconds since the reply to an earlier request, real or virtual, whichever are more."""
        virtual = self.virtual - earlier.virtual if earlier.virtual else 0
        return max(0, self.began - earlier.answered, virtual)


def lint(
    entries: Iterable[Mapping[str, Any]], payments: Iterable[Mapping[str, Any]] = ()
) -> list[LintWarning]:
    """Return what is wrong with the requests of one sandbox: its journal, newest first, and its payments."""
    requests = sorted(map(_Request, reversed([*entries])), key=lambda request: request.began)
    payments = [*payments]
    return [
        *key_not_reused(requests),
        *key_conflict(requests),
        *key_repeated(requests),
        *key_too_old(requests, payments),
        *key_in_browser(requests),
        *ignores_retry_after(requests),
        *polls_forever(requests),
        *polls_too_often(requests),
        *secret_in_order(requests, payments),
    ]


def key_not_reused(requests: Sequence[_Request]) -> Iterator[LintWarning]:
    """A second payment of an order, created while no reply had shown the first one."""
    unseen: dict[str | None, _Request] = {}
    for request in requests:
        earlier = unseen.get(request.order_id)
        if request.operation == CREATE_PAYMENT and request.idempotency == "new":
            if earlier is not None:
                damage = f"was damaged ({earlier.fault})" if earlier.status else "was lost"
                if earlier.status >= 400:
                    damage = f"was {earlier.status}"
                yield _warning(
                    "key_not_reused",
                    f"the reply to a creation {damage}, and the next creation had another "
                    "Idempotency-Key, which made a second payment; retry with the key of the first try",
                    earlier,
                    request,
                )
            unseen[request.order_id] = earlier = request
        if earlier is not None and request.shown and request.payment_id == earlier.payment_id:
            del unseen[request.order_id]


def key_conflict(requests: Sequence[_Request]) -> Iterator[LintWarning]:
    """A request whose Idempotency-Key had been used for another one."""
    for request in requests:
        if request.idempotency == "conflict":
            yield _warning(
                "key_conflict",
                "an Idempotency-Key was used again with another body or on another endpoint; repeat the "
                "original body to retry, and use a new key for another operation",
                request,
            )


def key_repeated(requests: Sequence[_Request]) -> Iterator[LintWarning]:
    """Most creations with the Idempotency-Key of one payment, as of a load test: they create nothing."""
    creations = [one for one in requests if one.idempotency and one.operation == CREATE_PAYMENT]
    replays = [one for one in creations if one.idempotency == "replayed" and one.shown]
    for payment_id, number in Counter(one.payment_id for one in replays).most_common(1):
        if number >= 10 and 2 * number > len(creations):  # fewer may be retries
            yield _warning(
                "key_repeated",
                f"{number} of {len(creations)} creations repeated one Idempotency-Key, and created nothing; "
                "give each payment a key of its own",
                *(one for one in replays if one.payment_id == payment_id),
            )


def key_too_old(requests: Sequence[_Request], payments: Iterable[Mapping[str, Any]]) -> Iterator[LintWarning]:
    """A repeated creation whose Idempotency-Key the real service keeps no more."""
    created = {payment["id"]: parse_rfc3339(payment["created_at"]) or 0 for payment in payments}
    for request in requests:
        age = request.virtual - created.get(request.payment_id, request.virtual)
        if request.idempotency == "replayed" and age > KEY_LIFETIME:
            yield _warning(
                "key_too_old",
                "an Idempotency-Key was used again after more than 24 hours; the real service has forgotten "
                "it, and would create a second payment: look it up first",
                request,
            )


def key_in_browser(requests: Sequence[_Request]) -> Iterator[LintWarning]:
    """Requests that browsers have sent from pages of others than this server."""
    sent = [one for one in requests if one.fetch_site not in (None, "same-origin", "none")]
    if sent:
        yield _warning(
            "key_in_browser",
            "a browser has sent the API key, so every user of the page can read it; keep it on the backend",
            *sent,
        )


def ignores_retry_after(requests: Sequence[_Request]) -> Iterator[LintWarning]:
    """A request that repeats one sooner than its reply has asked for."""
    overloaded: dict[tuple[str, str | None], _Request] = {}
    for request in requests:
        about = None  # other operations are about nothing
        if request.operation in (CREATE_PAYMENT, *PAYMENT_READS):
            about = request.order_id if request.operation == CREATE_PAYMENT else request.payment_id
            if about is None:
                continue
        if request.operation is None:
            continue
        subject = request.operation, about
        earlier = overloaded.get(subject)
        if earlier is not None and request.began >= earlier.answered:
            del overloaded[subject]
            pause = request.pause_since(earlier)
            asked = 1 if earlier.retry_after == "date" else min(int(earlier.retry_after), 60)
            if pause < asked * 900:  # a client may cap it; a busy server records a reply after it has sent it
                yield _warning(
                    "ignores_retry_after",
                    f"`{request.operation}` was repeated {format_seconds(pause / 1000)} s after a reply "
                    f"{earlier.status} with `Retry-After: {earlier.retry_after}`; wait that long first",
                    earlier,
                    request,
                )
        if request.retry_after not in ("none", "0"):
            overloaded[subject] = request


def polls_forever(requests: Sequence[_Request]) -> Iterator[LintWarning]:
    """A payment that was read on after a reply had shown it in a terminal status."""
    ends: dict[str | None, _Request] = {}
    reads: dict[str | None, list[_Request]] = defaultdict(list)
    for request in requests:
        end = ends.get(request.payment_id)
        if end is None:
            if request.operation == GET_PAYMENT and request.shown in TERMINAL_STATUSES:
                ends[request.payment_id] = request
        elif request.operation in PAYMENT_READS and request.began >= end.answered:
            reads[request.payment_id].append(request)
    for payment_id, later in reads.items():
        end = ends[payment_id]
        if len(later) > MAX_READS_AFTER_END:
            yield _warning(
                "polls_forever",
                f"the payment was read {len(later)} more times after a reply had shown it as `{end.shown}`, "
                "which is final; stop polling at a final status",
                end,
                *later,
            )


def polls_too_often(requests: Sequence[_Request]) -> Iterator[LintWarning]:
    """A payment of which there was a second with more than MAX_READS_PER_SECOND reads."""
    reads: dict[str, list[_Request]] = defaultdict(list)
    for request in requests:
        if request.operation == GET_PAYMENT and request.payment_id:
            reads[request.payment_id].append(request)
    for all_reads in reads.values():
        first, most = 0, all_reads[:1]
        for last, read in enumerate(all_reads):
            while read.pause_since(all_reads[first]) >= 1000:
                first += 1
            if last - first >= len(most):
                most = all_reads[first : last + 1]
        if len(most) > MAX_READS_PER_SECOND:
            yield _warning(
                "polls_too_often",
                f"the payment was read {len(most)} times within a second; wait between two reads, at most "
                f"{MAX_READS_PER_SECOND} of them a second",
                *most,
            )


def secret_in_order(
    requests: Sequence[_Request], payments: Iterable[Mapping[str, Any]]
) -> Iterator[LintWarning]:
    """A payment whose order id or metadata holds what looks like a secret."""
    for payment in payments:
        fields = [("order_id", payment["order_id"]), *_texts("metadata", payment["metadata"])]
        kinds = [(field, kind) for field, text in fields if (kind := _secret(field, text))]
        for field, kind in kinds[:1]:
            about = [request for request in requests if request.payment_id == payment["id"]]
            yield LintWarning(
                "secret_in_order",
                _masked(payment["order_id"]),
                payment["id"],
                f"`{field}` holds what looks like {kind}; pages and logs show it, so keep secrets out of it",
                tuple(request.id for request in about if request.operation == CREATE_PAYMENT),
            )


def _warning(rule: str, explanation: str, *requests: _Request) -> LintWarning:
    """The warning about these requests; it names the order and the payment of the last one."""
    order_id = next((_masked(one.order_id) for one in reversed(requests) if one.order_id), None)
    ids = tuple(request.id for request in requests)
    return LintWarning(rule, order_id, requests[-1].payment_id, explanation, ids)


def _texts(field: str, value: Any) -> Iterator[tuple[str, str]]:
    """Each text in a JSON value, with the name of its field."""
    if isinstance(value, str):
        yield field, value
    elif isinstance(value, Mapping):
        for name, member in value.items():
            yield from _texts(f"{field}.{name}", member)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _texts(f"{field}[{number}]", item)


def _secret(field: str, text: str) -> str | None:
    """What kind of secret the text of a field seems to hold; None if it holds none."""
    number = _PRIVATE_KEY.search(text)
    if number and not (number[1] is None if field == "order_id" else _DIGEST_NAME.search(field)):
        return "a private key"
    return next((kind for kind, pattern in _SECRETS if pattern.search(text)), None)


def _masked(order_id: str) -> str:
    return "***" if _secret("order_id", order_id) else order_id
