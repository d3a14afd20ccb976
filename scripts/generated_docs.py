"""Parts of the documentation that are generated from the code, by `scripts/update-docs`."""

import ast
import re
from collections.abc import Callable, Iterator, Mapping

import click

from paymock.cli.main import cli
from paymock.cli.serve import serve
from paymock.payments.checkout import VIEWS
from paymock.payments.files import load_catalog
from paymock.rules.errors import ERRORS
from paymock.rules.scenarios import SCENARIOS
from paymock.rules.timeline import simulate
from paymock.verify.checks import CHECKS, Severity
from paymock.verify.plans import FAULTS, Frequency
from paymock.web.telemetry.metrics import COUNTERS, DURATION
from scripts import status_diagram, tables
from scripts.dependency_metadata import dependencies
from scripts.openapi.documents import CONTROL_API, PUBLIC_API
from scripts.openapi.generator import document, to_yaml
from scripts.openapi.postman import collection
from scripts.status_diagram import DUE, OTHER_ASSET
from tests.support import markdown
from tests.support.groups import GROUPS
from tests.verify.shops import table as shops


def _courses() -> str:
    rows = []
    for name, scenario in SCENARIOS.items():
        steps = {state.status: state.at // 1000 for state in reversed(simulate(scenario, DUE, OTHER_ASSET))}
        passed = [f"{second} s `{status}`" for status, second in reversed(steps.items())]
        rows.append((f"`{name}`", ", ".join(passed)))
    return tables.markdown(("Scenario", "Statuses"), rows)


def _chains() -> str:
    catalog, rows = load_catalog(None), []
    for chain in catalog.chains.values():
        assets = [f"`{one.id}` {one.decimals}" for one in (catalog.assets(chain.id) or {}).values()]
        rows.append((f"`{chain.id}`", chain.name, f"{chain.chain_id}", ", ".join(assets)))
    return tables.markdown(("Chain", "Name", "EVM id", "Assets, decimals"), rows)


def _commands() -> str:
    """Each command with its summary. That of `serve` is on the page of configuration."""
    commands = [(name, command) for name, command in _all_commands() if name != "serve"]
    rows = [(f"`{name}`", command.get_short_help_str(limit=200)) for name, command in commands]
    return tables.markdown(("Command", "Does"), rows)


def _all_commands() -> Iterator[tuple[str, click.Command]]:
    """All commands, those of groups with the name of their group."""
    for name in cli.list_commands(click.Context(cli)):
        command = cli.get_command(click.Context(cli), name)
        if isinstance(command, click.Group):
            yield from ((f"{name} {member}", found) for member, found in command.commands.items())
        elif command is not None:
            yield name, command


def _options() -> str:
    """Every option of `serve`: its flag, its variable, its default and its meaning; aliases are left out."""
    rows = []
    for option in (one for one in serve.params if isinstance(one, click.Option) and not one.hidden):
        meaning, _, said = (option.help or "").partition(" [default: ")
        default = said.removesuffix("]") or ("off" if option.is_flag else _default(option))
        flag = " / ".join(f"`{name}`" for name in (option.opts[0], *option.secondary_opts))
        variable = option.envvar if isinstance(option.envvar, str) else (option.envvar or [""])[0]
        rows.append((flag, f"`{variable}`", default, meaning))
    return tables.markdown(("Option", "Variable", "Default", "Meaning"), rows)


def _default(option: click.Option) -> str:
    value = option.to_info_dict()["default"]
    return "none" if value is None else f"`{value}`"


def _packages() -> str:
    """Each package with the first sentence of its docstring."""
    source = markdown.ROOT / "src"
    rows = []
    for file in sorted(source.glob("paymock/*/**/__init__.py")):
        docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        name = ".".join(file.parent.relative_to(source / "paymock").parts)
        rows.append((f"`{name}`", re.split(r"(?<=\.)\s", docstring.replace("\n", " "))[0]))
    return tables.markdown(("Package", "Contains"), rows)


def _errors() -> str:
    rows = [(f"{kind.status}", f"`{kind.code}`", kind.meaning, kind.remedy) for kind in ERRORS.values()]
    return tables.markdown(("Status", "Code", "When", "What to do"), rows)


def _checkout_views() -> str:
    rows = [(f"`{view.name}`", view.headline, f"`{status}`") for status, view in VIEWS.items()]
    return tables.markdown(("View", "Says", "Status"), rows)


def _operations() -> str:
    rows = [(f"`{row.method} {row.path}`", row.summary) for row in CONTROL_API.operations]
    return tables.markdown(("Call", "Does"), rows)


def _metrics() -> str:
    name, text, labels = DURATION
    metrics = [(name, "counter", *about) for name, about in COUNTERS.items()]
    rows = [
        (f"`{name}`", kind, ", ".join(f"`{label}`" for label in labels), text)
        for name, kind, labels, text in [*metrics, (name, "histogram", labels, text)]
    ]
    return tables.markdown(("Metric", "Kind", "Labels", "Counts"), rows)


def _groups() -> str:
    """Each group of tests with the programs that it needs."""
    rows = [(f"`{name}`", group.tier, group.needs) for name, group in sorted(GROUPS.items())]
    return tables.markdown(("Group", "Tier", "Needs"), rows)


def _dependency_table() -> str:
    rows = [
        (row.name, f"`{row.versions}`", row.license, row.extra and f"`{row.extra}`", row.reason)
        for row in dependencies()
    ]
    return tables.markdown(("Package", "Versions", "License", "With the extra", "Why"), rows)


def _judge_rules() -> str:
    """Each rule with an anchor. How to fix it, its findings tell."""
    rows = [(f'<a id="{one.name}"></a>`{one.name}`', one.severity, one.meaning) for one in CHECKS.values()]
    return tables.markdown(("Rule", "Severity", "Broken by"), rows)


def _judge_faults() -> str:
    rows = []
    for frequency in Frequency:
        faults = ", ".join(f"`{fault}`" for fault, often in FAULTS.items() if often is frequency)
        rows += [(faults, *frequency.value)] if faults else []
    return tables.markdown(("Faults", "On creations", "On reads"), rows)


def _judge_score() -> str:
    """The shops of the corpus by money rule; a test fails unless each is judged as its row says."""
    rows = [("none", str(len(shops.GOOD)), "`SAFE`")]
    for rule in (rule for rule in CHECKS.values() if rule.severity is Severity.MONEY):
        cases = [case for case in shops.BAD if rule.name in case.rules]
        verdict = ", ".join(sorted({f"`{case.verdict}`" for case in cases}))
        rows.append((f"`{rule.name}`", str(len(cases)), verdict))
    return tables.markdown(("Broken rule", "Applications", "Verdict"), rows)


GENERATED: Mapping[tuple[str, str], Callable[[], str]] = {
    ("README.md", "scenarios"): tables.scenario_table,
    ("docs/architecture.md", "packages"): _packages,
    ("docs/concepts.md", "courses"): _courses,
    ("docs/concepts.md", "chains"): _chains,
    ("docs/configuration.md", "options"): _options,
    ("docs/errors.md", "errors"): _errors,
    ("docs/faults.md", "faults"): tables.fault_table,
    ("docs/cli.md", "commands"): _commands,
    ("docs/control-api.md", "operations"): _operations,
    ("docs/pages.md", "checkout-views"): _checkout_views,
    ("docs/deploy.md", "metrics"): _metrics,
    ("CONTRIBUTING.md", "groups"): _groups,
    ("docs/dependencies.md", "dependencies"): _dependency_table,
    ("docs/verify.md", "rules"): _judge_rules,
    ("docs/verification.md", "frequencies"): _judge_faults,
    ("docs/verification.md", "score"): _judge_score,
}
"""The text between the markers of a name in a page."""

GENERATED_FILES: Mapping[str, Callable[[], str]] = {
    "docs/images/states.svg": status_diagram.picture,
    "docs/paymock.postman_collection.json": lambda: collection(document(PUBLIC_API)),
    "src/paymock/web/openapi.yaml": lambda: to_yaml(document(PUBLIC_API)),
    "src/paymock/web/openapi-control.yaml": lambda: to_yaml(document(CONTROL_API)),
}
"""Files that are generated as a whole."""


def update() -> Iterator[str]:
    """Write all parts, and yield a line for each that says whether it has changed."""
    for name, content in GENERATED_FILES.items():
        yield _written(name, name, content())
    for (page, name), content in GENERATED.items():
        new = markdown.with_marked(markdown.read(page), name, content())
        yield _written(page, f"{page}: {name}", new)


def _written(page: str, what: str, new: str) -> str:
    file = markdown.ROOT / page
    changed = not file.exists() or file.read_text(encoding="utf-8") != new
    file.write_text(new, encoding="utf-8")
    return f"{what} {'is new' if changed else 'is as it was'}"
