"""Text for terminals, logs and reports, without secrets and control characters."""

import re
import shlex

CONTROL = "\x00-\x1f\x7f-\x9f"
SEPARATORS = "\u2028\u2029"
"""They end lines and paragraphs."""

BIDIRECTIONAL = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""They change the direction of the text around them."""

_CONTROL_CHARACTERS = re.compile(f"[{CONTROL}{SEPARATORS}{BIDIRECTIONAL}]")
_SECRET = re.compile("(?:0[xX])?[0-9a-fA-F]{33,}|(?i:mk_|whsec_)[A-Za-z0-9_-]+")
"""What may be an address, a hash, an API key or a webhook secret. Ids have shorter runs of hex digits."""

SANDBOX_NAME = "[A-Za-z0-9_-]{1,64}"
"""The NAME in the API keys `mk_test_NAME` and `KEY.NAME`, as a pattern."""

NAMED_KEY = re.compile(f"(.+)[.]{SANDBOX_NAME}")
OPEN_KEY = re.compile(f"mk_test_{SANDBOX_NAME}")
_STATUS_WIDTH = 20


def escape_control(text: str) -> str:
    """The text on one line, with escapes like `\\u202e` in place of characters that control a terminal."""
    return _CONTROL_CHARACTERS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def without_secrets(text: str) -> str:
    """The text with `***` in place of what looks like a secret."""
    return _SECRET.sub("***", text)


def without_key(text: str, api_key: str | None) -> str:
    """The text with `***` in place of an API key, and of the keys of its sandboxes."""
    return re.sub(rf"{re.escape(api_key)}(?:\.{SANDBOX_NAME})?", "***", text) if api_key else text


def shell_word(text: str) -> str:
    """The text as one word of a POSIX shell; of bash, if it has control characters besides line breaks."""
    if not _CONTROL_CHARACTERS.search(text.replace("\n", "")):
        return shlex.quote(text)
    quoted = text.replace("\\", r"\\").replace("'", r"\'")
    return "$'" + _CONTROL_CHARACTERS.sub(lambda match: rf"\u{ord(match[0]):04x}", quoted) + "'"


def format_seconds(value: float) -> str:
    """Seconds, to the millisecond, without trailing zeros."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def timeline_line(offset_seconds: float, status: str, event: str) -> str:
    """A change of a payment: seconds since creation, the new status, and the event, without that status."""
    event = escape_control(event).removesuffix(status).removesuffix(": ")
    return f"{format_seconds(offset_seconds):>6} s  {status:<{_STATUS_WIDTH}}  {event}".rstrip()


def format_times(times: int | None) -> str:
    """How often something applies; None: always."""
    return {None: "always", 1: "once"}.get(times, f"{times} times")
