"""The command `verify`."""

import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
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
from paymock.cli.options import (
    FILE,
    KEY_FROM_VARIABLE,
    Duration,
    Integer,
    api_key,
    as_json,
    is_given,
    server_url,
)
from paymock.cli.output import echo, echo_json, echo_note, printable
from paymock.client.http import Refused
from paymock.rules.faults import fault_problem
from paymock.text import SANDBOX_NAME, shell_word, without_key

if TYPE_CHECKING:
    from paymock.verify.driver import Backend
    from paymock.verify.report import Report
    from paymock.verify.verifier import Verifier

_READY_SECONDS = 60.0
_PROGRESS_SECONDS = 10.0
_CLEAR = "\r\x1b[K"  # the line of a terminal
_FILES = ("junit", "markdown", "html")
_UNREPEATED = ("only", "budget", "fail_fast", *_FILES)  # options that a repeated command leaves out
_STYLES = {"SAFE": "green", "UNSAFE": "red", "UNDETERMINED": "yellow"}

_CALLS = ("order", "deliveries", "tick", "run_command", "ready", "crash_with", "replicas")
"""The parameters that say how the application is started and called."""

_OWN_COMMAND = (
    "",
    "That was a partial run on the bundled shop. For your own application:",
    "",
    "paymock verify --run 'node shop.mjs' --ready http://127.0.0.1:8000/ready \\",
    "  --order 'POST http://127.0.0.1:8000/orders/{order_id}' \\",
    "  --deliveries 'GET http://127.0.0.1:8000/deliveries/{order_id}'",
)


class NotJudged(CommandError):
    """The application could not be judged."""

    exit_code = 3
    code = "undetermined"


@contextmanager
def _not_judged_if_refused() -> Iterator[None]:
    """Exit with 3 when what prevents a verdict is a refusal: exit status 1 means UNSAFE."""
    try:
        with api_errors():
            yield
    except RequestRefused as refused:
        raise NotJudged(*refused.message.splitlines()) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        raise NotJudged(str(error)) from None


def fault(value: str) -> str:
    """A fault, as a rule has it."""
    if problem := fault_problem(value):
        raise click.BadParameter(problem)
    return value


@click.command
@server_url
@api_key
@click.option("--example", is_flag=True, help="Run a self-test, then test an unsafe shop: it takes seconds.")
@click.option(
    "--order",
    metavar="CALL",
    help="Place an order: a shell command, with ORDER_ID, PAYMOCK_URL and PAYMOCK_API_KEY in its "
    "environment, or a request like 'POST http://127.0.0.1:8000/orders/{order_id}'.",
)
@click.option(
    "--deliveries",
    metavar="CALL",
    help="Count the deliveries of an order: a call that prints or returns an integer, true or false.",
)
@click.option("--tick", metavar="CALL", help="Make the application poll once, unless it polls by itself.")
@click.option("--run", "run_command", metavar="CMD", help="Start the application, and stop it at the end.")
@click.option("--ready", metavar="URL", help="Wait until this URL of the application answers with 2xx.")
@click.option(
    "--fulfil-at",
    multiple=True,
    type=STATUS,
    default=("completed",),
    help="Status at which the goods are due. Repeatable: at any of them.",
)
@click.option(
    "--scenarios", "scenario_file", type=FILE, metavar="FILE", help="Add the scenarios of this TOML file."
)
@click.option("--scenario", "scenarios", multiple=True, type=SCENARIO, help="Only this scenario. Repeatable.")
@click.option(
    "--fault",
    "faults",
    multiple=True,
    type=fault,
    metavar="FAULT",
    help="Only this fault, in every request. Repeatable.",
)
@click.option("--deep", is_flag=True, help="Try every fault in every request: it takes five times as long.")
@click.option(
    "--budget",
    type=Duration(1, 86_400),
    help="Start no trial after this time; running trials get ten seconds more.",
)
@click.option(
    "--jobs",
    type=Integer(1, 96),
    metavar="N",
    help="Maximum number of concurrent trials. [default: 96 with --tick, else 16 to 90, by its pace]",
)
@click.option("--crash", is_flag=True, help="Kill the application of --run at many moments, too.")
@click.option("--crash-with", metavar="CMD", help="Kill and start the application with this command instead.")
@click.option(
    "--replicas",
    type=Integer(1, 16),
    default=1,
    show_default=False,
    metavar="N",
    help="Start N replicas; {port} stands for the port of each in --run, --ready, --order, --deliveries.",
)
@click.option(
    "--settle",
    type=Duration(1, 3_600),
    default=60.0,
    help="Maximum wait for a silent application, also after a crash. Choose more than its pauses and leases.",
)
@click.option(
    "--patience",
    type=Duration(0, 3_600),
    default=60.0,
    help="Minimum time for which payments stand still at each open status, during the other trials.",
)
@click.option("--only", metavar="TOKEN", help="Repeat the trial of a finding.")
@click.option("--junit", type=FILE, metavar="FILE", help="Write the report as JUnit XML.")
@click.option("--markdown", type=FILE, metavar="FILE", help="Write a summary as Markdown.")
@click.option(
    "--html", type=FILE, metavar="FILE", help="Write the report as one HTML page, to keep and show."
)
@click.option("--fail-fast", is_flag=True, help="End at the first confirmed finding about money.")
@as_json
@click.pass_context
@_not_judged_if_refused()
def verify(
    ctx: click.Context,
    /,
    *,
    url: str,
    key: str,
    example: bool,
    scenario_file: Path | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Test whether an application handles money safely.

    Runs it through all scenarios and injects each kind of fault into its requests; then reports
    whether goods were delivered without payment, twice, or never, and whether a customer could have paid
    twice. Uses the server of --url or PAYMOCK_URL, or else a temporary one. For a first look: --example.

    Exit status: 0 SAFE, 1 UNSAFE, 3 UNDETERMINED.
    """
    # Imported here, since help and completion do not need them.
    from paymock.verify.process import NotStarted
    from paymock.verify.runner import Options
    from paymock.verify.verifier import Verifier

    calls = {name: settings.pop(name) for name in _CALLS}
    files = {name: settings.pop(name) for name in _FILES}
    _check_calls(calls, crash=settings["crash"], example=example)
    _check_files(filter(None, files.values()))
    settings |= {name: settings[name] or None for name in ("scenarios", "faults")}
    settings["crash"] = settings["crash"] or calls["crash_with"] is not None
    if example:
        settings |= {"scenarios": ["happy_path"], "faults": ["drop", "status=503"], "patience": 0.0}
        _self_test()
    for number in {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}:  # Windows has no SIGHUP
        signal.signal(number, signal.default_int_handler)  # so that the application is ended in every case
    with ExitStack() as stack:
        is_started = example or calls["run_command"] is not None
        sandbox = stack.enter_context(_sandbox(ctx, url, key, scenario_file, stack, is_started=is_started))
        options = Options(command=_repeated_command(ctx, sandbox.secret), **settings)
        try:
            application = _application(sandbox, options.budget, stack, example=example, **calls)
            judge = stack.enter_context(closing(Verifier(sandbox, application, options)))
        except NotStarted as error:
            raise NotJudged(*without_key(str(error), sandbox.secret).splitlines()) from None
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        try:
            _run(judge, with_bar=sys.stderr.isatty() and not as_json)
        except KeyboardInterrupt:
            echo_note("interrupted: the report so far")
        report = judge.report()
    _show(report, files, as_json=as_json)
    if example and not as_json:
        echo(*_OWN_COMMAND)
    ctx.exit(report.exit_code)


def _check_calls(calls: Mapping[str, Any], *, crash: bool, example: bool) -> None:
    """Raise UsageError if an option lacks another one."""
    if missing := [f"'--{name}'" for name in ("order", "deliveries") if not (calls[name] or example)]:
        raise click.UsageError(
            f"Missing option {' and '.join(missing)}: they say how to call the application. To try "
            "it without one: paymock verify --example"
        )
    if (crash or calls["replicas"] > 1) and not (calls["run_command"] and calls["ready"]):
        raise click.UsageError("--crash and --replicas need --run and --ready: what to start, and its URL.")


def _check_files(paths: Iterable[Path]) -> None:
    """Raise NotJudged if a file cannot be written."""
    for path in paths:
        is_new = not path.exists()
        if is_new or path.is_file() or path.is_dir():  # to open and close a pipe would end it for its reader
            try:
                path.open("ab").close()
            except OSError as error:
                raise NotJudged(f"{path}: {error.strerror}") from None
            if is_new:
                path.unlink()


def _self_test() -> None:
    """Judge shops whose bugs are known, and tell how many were caught. Raises NotJudged if one was not."""
    from paymock.verify.example import BUGS, self_test

    began, count = time.monotonic(), len(BUGS)
    echo_note(f"self-test: judging a careful shop and {count} with a bug each ...")
    with temporary_server() as url:
        missed = self_test(url)
    if missed:
        raise NotJudged(f"self-test: the verdicts are unreliable. It missed: {'; '.join(missed)}")
    echo_note(f"self-test: {count} of {count} built-in bugs caught, in {time.monotonic() - began:.0f} s")


def _application(
    sandbox: ApiClient, budget: float | None, stack: ExitStack, *, example: bool, **calls: Any
) -> "Backend":
    """The application, or the example; started if that is asked for. Raises NotStarted."""
    if example:
        from paymock.verify.driver import Backend, InlineExecutor
        from paymock.verify.example import UnsafeShop

        shop = stack.enter_context(closing(UnsafeShop(sandbox.url, sandbox.api_key)))
        return Backend(shop.order, shop.delivered.__getitem__, shop.poll, InlineExecutor())
    from paymock.verify.commands import Caller, backend_of
    from paymock.verify.process import ExternalService, Service

    environment = {"PAYMOCK_URL": sandbox.url, "PAYMOCK_API_KEY": sandbox.api_key}
    command, replicas = calls["run_command"], calls["replicas"]
    service: Service | ExternalService | None = None
    if command is not None:
        service = stack.enter_context(Service(command, environment, calls["ready"], _READY_SECONDS, replicas))
    if calls["crash_with"] is not None:
        service = ExternalService(partial(Caller(environment).call, calls["crash_with"]))
    how = calls["order"], calls["deliveries"], calls["tick"]
    return stack.enter_context(backend_of(*how, environment, budget, service))


def _sandbox(
    ctx: click.Context, url: str, key: str, scenarios: Path | None, stack: ExitStack, *, is_started: bool
) -> ApiClient:
    """The sandbox to use: of the server that is named, or of one of its own with these scenarios.

    An application that is not started here has a key already: without PAYMOCK_SANDBOX, it is kept.
    """
    is_default = ctx.get_parameter_source("key") is ParameterSource.DEFAULT
    is_chosen = bool(os.environ.get("PAYMOCK_SANDBOX"))
    is_named = ctx.get_parameter_source("url") is not ParameterSource.DEFAULT
    if not is_named and (ctx.parent is None or not is_given(ctx.parent, "url")):
        return ApiClient.own(stack.enter_context(temporary_server(scenarios)), None if is_default else key)
    if scenarios is not None:
        raise click.UsageError("--scenarios is for a temporary server: give the file to `paymock serve`.")
    with ApiClient.own(url, None if is_default and is_chosen else key) as own:
        try:
            own.clock()
        except Refused as refused:
            named = re.fullmatch(rf"(.+)\.({SANDBOX_NAME})", key)
            if refused.code != "unauthenticated" or named is None:
                raise
            return ApiClient(url, named[1], name=named[2])  # K.NAME, which has no sandboxes of its own
    return own if is_started or is_chosen else ApiClient(url, key)


def _repeated_command(ctx: click.Context, key: str) -> str:
    """This command line, without what ends it early, its token, its files and the API key."""
    words = ["paymock", "verify"]
    for parameter in ctx.command.params:
        name = parameter.name or ""
        if not is_given(ctx, name) or name in _UNREPEATED:
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


def _run(judge: "Verifier", *, with_bar: bool) -> None:
    """Run the trials. Standard error shows how many have ended, what is awaited, and each violation."""
    told: set[str] = set()
    shown_at, columns = time.monotonic(), shutil.get_terminal_size().columns
    for progress in judge.run():
        for name, text in judge.results.incidents():
            if name not in told:
                told.add(name)
                echo_note(f"{_CLEAR * with_bar}{printable(f'verify: {text}')}")
        if with_bar:
            click.echo(f"{_CLEAR}{str(progress)[: columns - 1]}", nl=False, err=True)
        elif time.monotonic() - shown_at >= _PROGRESS_SECONDS:
            shown_at = time.monotonic()
            echo_note(f"verify: {progress}")
    click.echo(_CLEAR * with_bar, nl=False, err=True)


def _show(report: "Report", files: Mapping[str, Path | None], *, as_json: bool) -> None:
    """Write the report to files by the name of their format, and print it in every case. Raises NotJudged."""
    from paymock.verify import report as formats

    try:
        for name, path in files.items():
            if path is not None:
                document = getattr(formats, name)(report)
                try:
                    path.write_bytes(document)
                except OSError as error:
                    raise NotJudged(f"{path}: {error.strerror}") from None
    finally:
        first, *rest = str(report).splitlines()
        if as_json:
            echo_json(report.as_json())
        elif sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
            verdict = str(report.verdict)
            click.echo(first.replace(verdict, click.style(verdict, _STYLES[verdict], bold=True), 1))
            echo(*rest)
        else:
            echo(first, *rest)
