"""Every byte of `/v1` and of its document is as it was recorded."""

import difflib

import pytest

from paymock.rules import errors
from tests.web.transcript.record import TRANSCRIPT, as_text, transcript

REPLY = b"HTTP/1.1 200 OK\r\ndate: now\r\nx-request-id: req_1\r\ncontent-length: 4096\r\n\r\n%b"


def changes() -> list[str]:
    """The lines that are not as they were recorded, as a unified diff."""
    recorded = TRANSCRIPT.read_bytes().decode().split("\n")
    played = transcript().split("\n")
    return list(difflib.unified_diff(recorded, played, "recorded", "played", lineterm=""))


def test_every_byte_is_as_recorded() -> None:
    found = changes()
    assert not found, "if this is meant: python -m tests.web.transcript.record\n" + "\n".join(found)


def test_a_changed_byte_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "RETRY_AFTER_SECONDS", 2)
    changed = [line for line in changes() if line.startswith(("-<", "+<"))]
    assert changed == ["-< retry-after: 1", "+< retry-after: 2"] * 2  # a 429 and a 503


@pytest.mark.parametrize("size", [4_096, 4_097], ids=["a body in full", "a digest"])
def test_each_byte_counts_but_for_the_time_and_the_id_of_the_request(size: int) -> None:
    reply = REPLY % (b"x" * size)
    changed = {
        index
        for index, byte in enumerate(reply)
        if as_text("<", reply[:index] + bytes([byte ^ 1]) + reply[index + 1 :]) != as_text("<", reply)
    }
    ignored = bytes(byte for index, byte in enumerate(reply) if index not in changed)
    assert ignored == b"nowreq_1"
