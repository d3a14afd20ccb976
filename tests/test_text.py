import pytest

from paymock.text import escape_control


@pytest.mark.parametrize("character", ["\n", "\t", "\x1b", "\x7f", "\x9b", "\u200f", "\u2029", "\u2069"])
def test_a_control_character_is_escaped(character: str) -> None:
    assert escape_control(f"a{character}b") == f"a{character.encode('unicode_escape').decode()}b"
    assert escape_control("заказ 🎉 \N{ZERO WIDTH JOINER}") == "заказ 🎉 \N{ZERO WIDTH JOINER}"
