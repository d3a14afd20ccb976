import pytest

from paymock.rules.errors import ERRORS
from paymock.rules.scenarios import SCENARIOS


@pytest.mark.parametrize("code", ERRORS)
def test_every_code_has_a_meaning_and_a_remedy_in_whole_sentences(code: str) -> None:
    for text in (ERRORS[code].meaning, ERRORS[code].remedy):
        assert text[0].isupper()
        assert text.endswith(".")


def test_the_table_names_all_scenarios() -> None:
    assert all(name in ERRORS["invalid_scenario"].remedy for name in (*SCENARIOS, "--scenarios"))
