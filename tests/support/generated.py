"""What the documentation prints from the code: `scripts/update-docs` writes it, a test checks it."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from paymock.catalog_file import load_catalog
from paymock.cli import COMMANDS
from paymock.core import tables
from paymock.core.amounts import DEFAULT_FEE_BPS
from paymock.core.checkout import VIEWS
from paymock.core.errors import ERRORS
from paymock.metrics import METRICS
from paymock.web.books import CONTROL_BOOK, PUBLIC_BOOK
from paymock.web.examples import Premises
from paymock.web.guard import Keyring
from paymock.web.openapi import Book, document
from paymock.web.readable_yaml import to_yaml
from tests.support import markdown
from tests.support.dependencies import dependencies
from tests.support.process import run

SCRIPTS = sorted(path.name for path in (markdown.ROOT / "scripts").iterdir() if os.access(path, os.X_OK))
"""What people and CI call."""


def scenarios() -> str:
    rows = [row._replace(name=f"`{row.name}`", ends=f"`{row.ends}`") for row in tables.scenario_rows()]
    return tables.markdown(("Scenario", "Final status", "After", "Simulates"), rows)


def timing() -> str:
    return tables.markdown(("Step", "After creation"), tables.timing_rows())


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


def scripts() -> str:
    """What each script says of itself first."""
    rows = []
    for name in SCRIPTS:
        said = subprocess.check_output([markdown.ROOT / "scripts" / name, "--help"], text=True)
        paragraph = re.sub(r"usage: .*\n\n", "", said).replace("\n", " ")
        rows.append(f"| `scripts/{name}` | {paragraph.partition('. ')[0].partition('.  ')[0]}. |")
    return "\n".join(["| Script | What it does |", "| --- | --- |", *rows])


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
    return f"```{languages[Path(file).suffix]}\n{markdown.read(file)}```"


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
    ("CONTRIBUTING.md", "scripts"): scripts,
    ("docs/dependencies.md", "dependencies"): dependency_table,
}
"""What stands between the markers of a name in a file."""

DOCUMENTS: Mapping[str, tuple[str, Callable[[], str]]] = {
    "docs/openapi.yaml": ("/openapi.yaml", partial(openapi, PUBLIC_BOOK)),
    "docs/openapi-control.yaml": ("/_mock/openapi.yaml", partial(openapi, CONTROL_BOOK)),
}
"""The copies of the OpenAPI documents, and at which path a server without settings has the original."""


def update() -> Iterator[str]:
    """Writes all of it anew, and says of each part whether it has changed."""
    for (page, name), content in GENERATED.items():
        new = markdown.with_marked(markdown.read(page), name, content())
        yield _written(page, f"{page}: {name}", new)
    for page, (_, whole) in DOCUMENTS.items():
        yield _written(page, page, whole())


def _written(page: str, what: str, new: str) -> str:
    file = markdown.ROOT / page
    changed = not file.exists() or file.read_text(encoding="utf-8") != new
    file.write_text(new, encoding="utf-8")
    return f"{what} {'is new' if changed else 'is as it was'}"
