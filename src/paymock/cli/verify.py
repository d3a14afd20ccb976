"""The command `verify`."""

import os
import secrets
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from paymock.cli.api import (
    SCENARIO,
    STATUS,
    ApiClient,
    CommandError,
    RequestRefused,
    api_errors,
    temporary_server,
)
from paymock.cli.options import FILE, KEY_FROM_VARIABLE, Number, api_key, as_json, is_given, server_url
from paymock.cli.output import echo, echo_json, echo_note
from paymock.client.text import shell_word, without_key
from paymock.rules.faults import fault_problem

if TYPE_CHECKING:
    from paymock.verify.campaign import Verifier
    from paymock.verify.report import Report

_MAX_JOBS = 96
_READY_SECONDS = 60.0
_STYLES = {"SAFE": "green", "UNSAFE": "red", "UNDETERMINED": "yellow"}


class NotJudged(CommandError):
    """The application could not be judged."""

    exit_code = 3


@contextmanager
def _not_judged_if_refused() -> Iterator[None]:
    """Exit with 3 when what prevents a verdict is a refusal: exit status 1 means UNSAFE."""
    try:
        with api_errors():
            yield
    except RequestRefused as refused:
        raise NotJudged(*refused.message.splitlines()) from None


def _check_faults(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        problem = fault_problem(value)
        if problem:
            raise click.BadParameter(problem)
    return values


@click.command
@server_url
@api_key
@click.option(
    "--order",
    required=True,
    metavar="CALL",
    help="Place an order: a shell command, with ORDER_ID, PAYMOCK_URL and PAYMOCK_API_KEY in its "
    "environment, or a request like 'POST http://127.0.0.1:8000/orders/{order_id}'.",
)
@click.option(
    "--deliveries",
    required=True,
    metavar="CALL",
    help="Count the deliveries of an order: a call that prints or returns an integer, true or false.",
)
@click.option("--tick", metavar="CALL", help="Make the application poll once, unless it polls by itself.")
@click.option("--run", "run_command", metavar="CMD", help="Start the application, and stop it at the end.")
@click.option("--ready", metavar="URL", help="Wait until this URL of the application answers with 2xx.")
@click.option("--fulfil-at", type=STATUS, default="completed", help="Status at which the goods are due.")
@click.option("--scenario", "scenarios", multiple=True, type=SCENARIO, help="Only this scenario. Repeatable.")
@click.option(
    "--fault",
    "faults",
    multiple=True,
    callback=_check_faults,
    metavar="FAULT",
    help="Only this fault, in every request. Repeatable.",
)
@click.option(
    "--pairs",
    type=click.IntRange(0),
    default=0,
    show_default=False,
    metavar="N",
    help="Add N trials with two faults each.",
)
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=False,
    metavar="N",
    help="Seed for the choice of pairs.",
)
@click.option(
    "--budget",
    type=Number(1, 86_400),
    metavar="SECONDS",
    help="Start no trial after this many seconds; running trials get ten more.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, _MAX_JOBS),
    metavar="N",
    help="Maximum number of concurrent trials. [default: 96 with --tick, else 16]",
)
@click.option("--only", metavar="TOKEN", help="Repeat the trial of a finding.")
@click.option("--junit", type=FILE, metavar="FILE", help="Write the report as JUnit XML.")
@click.option("--markdown", type=FILE, metavar="FILE", help="Write a summary as Markdown.")
@as_json
@click.pass_context
@_not_judged_if_refused()
def verify(
    ctx: click.Context,
    /,
    *,
    url: str,
    key: str,
    order: str,
    deliveries: str,
    tick: str | None,
    run_command: str | None,
    ready: str | None,
    junit: Path | None,
    markdown: Path | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Test whether an application handles money safely.

    Runs it through all scenarios and injects each kind of fault into each of its requests; then reports
    whether goods were delivered without payment, twice, or never, and whether a customer could have paid
    twice. Uses the server of --url or PAYMOCK_URL, or else a temporary one.

    Exit status: 0 SAFE, 1 UNSAFE, 3 UNDETERMINED.
    """
    # Imported here, since help and completion do not need them.
    from paymock.verify.campaign import Verifier
    from paymock.verify.commands import NotStarted, application_of, running
    from paymock.verify.runner import Options

    _check_writable(junit, markdown)
    settings |= {name: settings[name] or None for name in ("scenarios", "faults")}
    with ExitStack() as stack:
        _interrupt_on_termination()  # so that the application is ended in every case
        sandbox = stack.enter_context(_sandbox(ctx, url, key, stack))
        environment = {"PAYMOCK_URL": sandbox.url, "PAYMOCK_API_KEY": sandbox.api_key}
        options = Options(command=_repeated_command(ctx, sandbox.api_key), **settings)
        try:
            if run_command is not None:
                stack.enter_context(running(run_command, environment, ready, _READY_SECONDS))
            application = stack.enter_context(
                application_of(order, deliveries, tick, environment, options.budget)
            )
            judge = stack.enter_context(closing(Verifier(sandbox, application, options)))
        except NotStarted as error:
            raise NotJudged(*without_key(str(error), sandbox.api_key).splitlines()) from None
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        try:
            _run(judge, quiet=as_json)
        except KeyboardInterrupt:
            echo_note("interrupted: the report so far")
        report = judge.report()
    try:
        _write(report, junit, markdown)
    finally:
        _print(report, as_json=as_json)
    ctx.exit(report.exit_code)


def _interrupt_on_termination() -> None:
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):  # Windows has no SIGHUP
            signal.signal(getattr(signal, name), signal.default_int_handler)


def _sandbox(ctx: click.Context, url: str, key: str, stack: ExitStack) -> ApiClient:
    """The sandbox to use: of the server that is named, or of one of its own."""
    is_named = ctx.get_parameter_source("url") is not ParameterSource.DEFAULT
    own_key = ctx.get_parameter_source("key") is ParameterSource.DEFAULT
    if is_named or (ctx.parent is not None and is_given(ctx.parent, "url")):
        return ApiClient(url, key)
    return ApiClient(
        stack.enter_context(temporary_server()), f"mk_test_{secrets.token_hex(16)}" if own_key else key
    )


def _repeated_command(ctx: click.Context, key: str) -> str:
    """This command line, without its token, its files and the API key."""
    words = ["paymock", "verify"]
    for parameter in ctx.command.params:
        name = parameter.name or ""
        if not is_given(ctx, name) or name in ("only", "junit", "markdown"):
            continue
        value = ctx.params[name]
        if name == "key":
            words.append(KEY_FROM_VARIABLE)
        elif value is True:
            words.append(parameter.opts[0])
        else:
            for item in value if isinstance(value, tuple) else (value,):
                words += [parameter.opts[0], shell_word(without_key(str(item), key))]
    return " ".join(words)


def _run(judge: "Verifier", *, quiet: bool) -> None:
    """Run the trials, on a terminal with a progress bar, which disappears at the end."""
    if quiet or not sys.stderr.isatty():
        for _ in judge.run():
            pass
        return
    from rich.console import Console  # imported here, since they take long
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("trials", total=None)
        for progress in judge.run():
            broken = f", {progress.broken} broke a rule" if progress.broken else ""
            bar.update(task, completed=progress.done, total=progress.planned, description=f"trials{broken}")


def _check_writable(*files: Path | None) -> None:
    """Raises NotJudged if a report cannot be written to a file. A pipe is not opened: closing it again would
    end it for its reader.
    """
    for path in filter(None, files):
        is_new = not path.exists()
        if is_new or path.is_file() or path.is_dir():
            try:
                path.open("ab").close()
            except OSError as error:
                raise NotJudged(f"{path}: {error.strerror}") from None
            if is_new:
                path.unlink()


def _write(report: "Report", junit: Path | None, markdown: Path | None) -> None:
    """Write the report to files. Raises NotJudged if that fails."""
    from paymock.verify import report as formats

    for path, document in ((junit, formats.junit(report)), (markdown, formats.markdown(report).encode())):
        if path is not None:
            try:
                path.write_bytes(document)
            except OSError as error:
                raise NotJudged(f"{path}: {error.strerror}") from None


def _print(report: "Report", *, as_json: bool) -> None:
    if as_json:
        echo_json(report.as_json())
        return
    first, *rest = str(report).splitlines()
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        verdict = str(report.verdict)
        click.echo(first.replace(verdict, click.style(verdict, _STYLES[verdict], bold=True), 1))
    else:
        echo(first)
    echo(*rest)
