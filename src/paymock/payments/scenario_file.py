"""Reads scenarios of users from the file of `--scenarios`."""

from collections.abc import Mapping
from pathlib import Path

from paymock.payments.scenarios import ScenarioFileError, parse_scenarios
from paymock.payments.toml_file import parse_file
from paymock.rules.scenarios import SCENARIOS, Scenario


def load_scenarios(path: Path | None) -> Mapping[str, Scenario]:
    """Return the built-in scenarios and those in the TOML file at `path`, by name. Raises ScenarioFileError,
    whose message is one line.
    """
    return {**SCENARIOS, **read_scenarios(path)} if path else SCENARIOS


def read_scenarios(path: Path) -> Mapping[str, Scenario]:
    """Return the scenarios in the TOML file at `path`, by name. Raises ScenarioFileError."""
    return parse_file(path, "scenario file", parse_scenarios, ScenarioFileError)
