"""What the documentation prints from the code: `scripts/update-docs` writes it, a test checks it."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from paymock.catalog_file import load_catalog
from paymock.cli import COMMANDS
from paymock.core.amounts import DEFAULT_FEE_BPS
from paymock.core.checkout import VIEWS
from paymock.core.errors import ERRORS
from paymock.core.tables import markdown, scenario_rows, timing_rows
from paymock.metrics import METRICS
from paymock.web.books import CONTROL_BOOK, PUBLIC_BOOK
from paymock.web.examples import Premises
from paymock.web.guard import Keyring
from paymock.web.openapi import Book, document
from paymock.web.readable_yaml import to_yaml
from tests.support import markdown as pages
from tests.support.dependencies import dependencies
from tests.support.process import run


def scenarios() -> str:
    rows = [row._replace(name=f"`{row.name}`", ends=f"`{row.ends}`") for row in scenario_rows()]
    return markdown(("Scenario", "Final status", "After", "Simulates"), rows)


def timing() -> str:
    return markdown(("Step", "After creation"), timing_rows())


def command_help(command: str) -> str:
    return f"```text\n{run(command, '--help', COLUMNS='100').stdout}```"


def errors() -> str:
    rows = [f"| {kind.status} | `{kind.code}` | {kind.meaning} | {kind.remedy} |" for kind in ERRORS.values()]
    return "\n".join(["| Status | Code | When | What to do |", "| --- | --- | --- | --- |", *rows])


def checkout_views() -> str:
    rows = [f"| `{view.name}` | {view.headline} | `{status}` |" for status, view in VIEWS.items()]
    return "\n".join(["| View | Says | Status |", "| --- | --- | --- |", *rows])


def operations() -> str:
    rows = [f"| `{row.method} {row.path}` | {row.summary} |" for row in CONTROL_BOOK.operations]
    return "\n".join(["| Call | Does |", "| --- | --- |", *rows])


def metrics() -> str:
    rows = [
        f"| `{row.name}` | {row.kind} | {', '.join(f'`{label}`' for label in row.labels)} | {row.meaning} |"
        for row in METRICS
    ]
    return "\n".join(["| Metric | Kind | Labels | Counts |", "| --- | --- | --- | --- |", *rows])


def dependency_table() -> str:
    rows = [
        f"| {row.name} | `{row.versions}` | {row.license} | {row.extra and f'`{row.extra}`'} | {row.reason} |"
        for row in dependencies()
    ]
    return "\n".join(
        ["| Package | Versions | License | With the extra | Why |", "| --- | --- | --- | --- | --- |", *rows]
    )


def shown(file: str) -> str:
    languages = {".java": "java", ".mjs": "js", ".sh": "sh"}
    return f"```{languages[Path(file).suffix]}\n{pages.read(file)}```"


def openapi(book: Book) -> str:
    return to_yaml(document(book, Premises(load_catalog(None), DEFAULT_FEE_BPS, Keyring(()))))


SHOWN = ("shell/payment.sh", "javascript/payment.test.mjs", "java/PaymentTest.java")
"""The examples that the documentation shows as they are."""

GENERATED: Mapping[tuple[str, str], Callable[[], str]] = {
    ("README.md", "scenarios"): scenarios,
    ("README.md", "timing"): timing,
    ("README.md", "serve-help"): partial(command_help, "serve"),
    ("docs/decisions.md", "errors"): errors,
    **{("docs/cli.md", command): partial(command_help, command) for command in COMMANDS},
    **{("docs/testing.md", f"examples/{file}"): partial(shown, f"examples/{file}") for file in SHOWN},
    ("docs/control-api.md", "operations"): operations,
    ("docs/pages.md", "checkout-views"): checkout_views,
    ("docs/deploy.md", "metrics"): metrics,
    ("docs/dependencies.md", "dependencies"): dependency_table,
}
"""What stands between the markers of a name in a file."""

DOCUMENTS: Mapping[str, tuple[str, Callable[[], str]]] = {
    "docs/openapi.yaml": ("/openapi.yaml", partial(openapi, PUBLIC_BOOK)),
    "docs/openapi-control.yaml": ("/_mock/openapi.yaml", partial(openapi, CONTROL_BOOK)),
}
"""The copies of the OpenAPI documents, and at which path a server without settings has the original."""
