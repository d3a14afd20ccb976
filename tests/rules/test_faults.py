"""Faults: their format, and the rules that select requests for them."""

import pytest

from paymock.rules.faults import FAULT_PRESETS, FAULT_ROWS, Fault, FaultKind, fault_problem, parse_fault

S, D, T = FaultKind.STATUS, FaultKind.DELAY, FaultKind.TRUNCATE


@pytest.mark.parametrize(
    ("text", "kind", "number", "after", "html", "times"),
    [
        ("status=503", S, 503, False, False, None),
        ("status=400; times=2", S, 400, False, False, 2),
        ("status=503; after", S, 503, True, False, None),
        ("status=502; before; html; times=1", S, 502, False, True, 1),
        ("status=599;html", S, 599, False, True, None),
        ("status=200; after; html", S, 200, True, True, None),
        ("delay=1500", D, 1500, False, False, None),
        ("delay=0;times=1", D, 0, False, False, 1),
        ("delay=30000 ;\tafter", D, 30_000, True, False, None),
        ("drop", FaultKind.DROP, 0, True, False, None),
        ("drop ; times=999999", FaultKind.DROP, 0, True, False, 999_999),
        ("drop; before", FaultKind.DROP, 0, False, False, None),
        ("reset", FaultKind.RESET, 0, True, False, None),
        ("hang; before; times=3", FaultKind.HANG, 0, False, False, 3),
        ("hold", FaultKind.HOLD, 0, True, False, None),
        ("hold; before; times=3", FaultKind.HOLD, 0, False, False, 3),
        ("extra", FaultKind.EXTRA, 0, True, False, None),
        ("extra; after; times=2", FaultKind.EXTRA, 0, True, False, 2),
        ("extra=type; times=2", FaultKind.EXTRA, 0, True, False, 2),
        ("status=429; after; html; retry-after=86400; times=2", S, 429, True, True, 2),
        ("truncate=0", T, 0, True, False, None),
        ("truncate=100; after; times=1", T, 100, True, False, 1),
    ],
)
def test_a_fault_is_parsed(
    text: str, kind: FaultKind, number: int, *, after: bool, html: bool, times: int | None
) -> None:
    part, wait = ("type" if "=type" in text else ""), ("86400" if "retry" in text else None)
    assert parse_fault(text) == Fault(text, kind, number, after, html, times, part, wait)
    assert fault_problem(text) is None


def test_any_other_text_is_not_a_fault() -> None:
    for text in (
        "", "status", "status=", "status=200", "status=200; after", "status=201; html", "status=600",
     "status=5033", "delay=30001", "delay=-1", "delay=1.5", "DROP", "drop=1", "drop; times=0",
     "drop; times=", "drop; times=1; times=2", "status=503,drop", "drop\n", "delay=\uff11", "truncate",
     "truncate=-1", "truncate=1; before", "truncate=1; html", "drop; html", "delay=1; html",
     "status=503; html; after", "drop; times=1; before", "drop; before; after", "drop;", "; after",
     "reset=1", "hang=60", "hold=1", "truncate=1000000", "extra=1", "extra; before", "extra; html",
     "status=429; retry-after=86401", "status=429; retry-after=-1", "status=200; html; retry-after=1",
     "drop; retry-after=1", "status=429; retry-after=", "status=503; times=1; retry-after=1",
    ):  # fmt: skip
        assert parse_fault(text) is None, text
        problem = fault_problem(text) or ""
        assert all(f"{kind}" in problem for kind in FaultKind), "which names all kinds"


def test_a_fault_says_whether_the_request_is_carried_out_and_answered() -> None:
    texts = ["status=503", "status=503; after", "delay=1", "drop", "reset; before", "hang", "hold"]
    texts += ["hold; before", "extra", "truncate=1"]
    faults = [fault for fault in map(parse_fault, texts) if fault]
    not_before = ["status=503", "delay=1", "reset; before", "hold; before"]
    assert [fault.text for fault in faults if not fault.after] == not_before
    assert [fault.text for fault in faults if fault.loses_reply] == ["drop", "reset; before", "hang"]


def test_the_table_has_an_example_of_each_kind() -> None:
    examples = [parse_fault(row.example) for row in FAULT_ROWS]
    assert [example and example.kind for example in examples] == [*FaultKind]
    assert all(parse_fault(fault) for _, fault, _ in FAULT_PRESETS)
    for row, example in zip(FAULT_ROWS, examples, strict=True):
        assert example
        assert row.phase.startswith("after" if example.after else "before")
