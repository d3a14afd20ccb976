"""Payments, requests, fault rules and their times as text, for terminals and reports."""

import re
import shlex
from collections.abc import Mapping
from typing import Any

_CONTROL_CHARACTERS = re.compile(
    "[\x00-\x1f\x7f-\x9f"
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # change the direction of the text around them
    "\u2028\u2029]"  # end lines and paragraphs
)
_STATUS_WIDTH = 20


def escape_control(text: str) -> str:
    """The text on one line, with escapes like `\\u202e` in place of characters that control a terminal."""
    return _CONTROL_CHARACTERS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def without_key(text: str, api_key: str | None) -> str:
    """The text with `***` in place of an API key, and of the keys of its sandboxes."""
    return re.sub(rf"{re.escape(api_key)}(?:\.[A-Za-z0-9_-]+)?", "***", text) if api_key else text


def shell_word(text: str) -> str:
    """The text as one word of a POSIX shell; of bash, if it has control characters besides line breaks."""
    if not _CONTROL_CHARACTERS.search(text.replace("\n", "")):
        return shlex.quote(text)
    quoted = text.replace("\\", r"\\").replace("'", r"\'")
    return "$'" + _CONTROL_CHARACTERS.sub(lambda match: rf"\u{ord(match[0]):04x}", quoted) + "'"


def format_seconds(value: float) -> str:
    """Seconds, to the millisecond, without trailing zeros."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def event_text(event: str, status: str) -> str:
    """The event of a change without its new status; empty when only the status changed."""
    return escape_control(event).removesuffix(status).removesuffix(": ")


def timeline_line(offset_seconds: float, status: str, event: str) -> str:
    """A change of a payment: seconds since creation, the new status, and the event."""
    offset = format_seconds(offset_seconds)
    return f"{offset:>6} s  {status:<{_STATUS_WIDTH}}  {event_text(event, status)}".rstrip()


def marked_timeline_line(entry: Mapping[str, Any]) -> str:
    """An entry of a timeline, marked if it has been reached."""
    line = timeline_line(entry["offset_seconds"], entry["status"], entry["event"])
    return f"{'x' if entry['reached'] else ' '} {line}"


def refusal_reasons(entry: Mapping[str, Any]) -> list[str]:
    """Why a request of the journal was refused: the problems of its body, or else the message."""
    problems = [f"{problem['field']}: {problem['message']}" for problem in entry["details"]]
    return problems or ([entry["message"]] if entry["message"] else [])


def format_times(times: int | None) -> str:
    """How often something applies; None: always."""
    return {None: "always", 1: "once"}.get(times, f"{times} times")


def fault_rule_line(rule: Mapping[str, Any]) -> str:
    """A fault rule without its id: how often it applies, its fault, what it selects, and its counts."""
    words = [rule["fault"], rule["operation"], rule["order_id"] and f"order {rule['order_id']}"]
    words += [rule["payment_id"], rule["skip"] and f"skip {rule['skip']}"]
    words += [f"seen {rule['seen']}", f"applied {rule['applied']}"]
    words += [rule.get("waiting") and f"waiting {rule['waiting']}"]
    return "  ".join([f"{format_times(rule['times']):<10}", *filter(None, words)])
