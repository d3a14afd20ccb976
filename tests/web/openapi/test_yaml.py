"""Readable YAML."""

from typing import Any

import pytest
import yaml

from paymock.web.openapi.yaml import to_yaml


def test_members_keep_their_order() -> None:
    assert to_yaml({"openapi": "3.1.0", "info": {"title": "x", "a": 1}, "b": []}) == (
        "openapi: 3.1.0\ninfo:\n  title: x\n  a: 1\nb: []\n"
    )


def test_a_text_of_several_lines_is_a_block() -> None:
    assert to_yaml({"description": "One.\n\n- Two."}) == "description: |-\n  One.\n\n  - Two.\n"


def test_what_occurs_twice_is_written_twice_without_anchors() -> None:
    shared = {"type": "string"}
    assert to_yaml({"a": shared, "b": shared}) == "a:\n  type: string\nb:\n  type: string\n"


@pytest.mark.parametrize(
    "value",
    ["yes", "null", "1.0", "2030-01-31", "", " x ", "a: b", "# x", "é…🪙", "tab\tand\nline \n", "x" * 300],
)
def test_every_text_is_read_back_as_it_was(value: str) -> None:
    document: dict[str, Any] = {value or "empty": [value, {"nested": value}]}
    assert yaml.safe_load(to_yaml(document)) == document
