import io
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paymock.server.announce import Announcer, ReadyFile
from paymock.server.process import StartError
from paymock.settings import Settings

URL, METRICS_URL = "http://127.0.0.1:8402", "http://127.0.0.1:9402"


def listeners(url: str = URL, metrics: str | None = None) -> list[Any]:
    port = int(url.rpartition(":")[2])
    return [SimpleNamespace(url=one, port=port) for one in (url, metrics) if one]


def banner(metrics: str | None = None, url: str = URL, **options: Any) -> str:
    out = io.StringIO()
    Announcer(Settings(**options), out).ready(listeners(url, metrics))
    return out.getvalue()


@pytest.mark.parametrize(
    ("store", "shown"),
    [
        ("sqlite:///var/lib/paymock.db?synchronous=normal", "sqlite:///var/lib/paymock.db"),
        ("sqlite:////var/lib/paymock.db", "sqlite:///var/lib/paymock.db"),
        ("sqlite:paymock.db?synchronous=normal", f"sqlite://{Path.cwd()}/paymock.db"),
        ("redis://user:secret@redis.example:6379/1?client_name=secret", "redis://redis.example:6379/1"),
        ("redis://user:secret/@redis.example/secret@[::1]:6379", "redis://[::1]:6379"),
        ("rediss+sentinel://:secret@a:1,b:2/paymock/3", "rediss+sentinel://a:1,b:2/paymock/3"),
    ],
)
def test_the_banner_shows_no_secret_of_the_store(store: str, shown: str) -> None:
    for log in ("text", "json"):
        text = banner(store=store, log=log)
        assert "secret" not in text
        line = f"\n  Store     {shown}\n" if log == "text" else f'"store":"{shown}"'
        assert line in text


def test_the_banner_counts_the_configured_keys_and_shows_none_of_them() -> None:
    text = banner(api_keys=("first-key", "second-key"))
    assert "  API keys  2 configured\n" in text
    assert "first-key" not in text


def test_the_banner_says_that_the_variable_port_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", "9000")
    assert "the variable PORT is ignored" in banner()
    monkeypatch.setenv("PAYMOCK_PORT", "9000")
    assert "the variable PORT is ignored" not in banner()


def test_the_banner_shows_only_what_differs_from_the_default() -> None:
    names = {line.split()[0] for line in banner().splitlines()}
    assert names.isdisjoint({"Store", "Metrics"})
    assert "Dashboard" in names
    assert "Dashboard" not in banner(control=False)
    text = banner(METRICS_URL, store="sqlite:///a.db")
    assert f"  Metrics   {METRICS_URL}/metrics\n" in text


@pytest.mark.parametrize(
    ("url", "settings", "command"),
    [
        (URL, {}, "paymock create"),
        ("http://127.0.0.1:9000", {}, "paymock --url http://127.0.0.1:9000 create"),
        ("http://[::1]:8402", {}, "paymock --url 'http://[::1]:8402' create"),
        (URL, {"api_keys": ("first-key",)}, "paymock --key KEY create"),
    ],
)
def test_the_banner_ends_with_a_first_command(url: str, settings: dict[str, Any], command: str) -> None:
    shown = banner(url=url, **settings).splitlines()
    assert shown[-2:] == [f"  Next      {command}", "  Stop      Ctrl-C"]


def test_the_event_has_what_a_program_needs() -> None:
    event = json.loads(banner(METRICS_URL, log="json"))
    expected = {"url": URL, "metrics": f"{METRICS_URL}/metrics", "open_mode": True}
    assert expected.items() <= event.items()
    assert "metrics" not in json.loads(banner(log="json"))


def test_a_ready_file_replaces_that_of_an_earlier_server(tmp_path: Path) -> None:
    """It is written through no link."""
    path, other, draft = (tmp_path / name for name in ("ready.json", "other", f".ready.json.{os.getpid()}"))
    for link in (path, draft):
        link.symlink_to(other)
    announcer = Announcer(Settings(ready_file=path), None)
    announcer.ready(listeners(URL, METRICS_URL))
    written = json.loads(path.read_text())
    assert written == {"url": URL, "port": 8402, "pid": os.getpid(), "metrics": f"{METRICS_URL}/metrics"}
    for _ in range(2):
        announcer.ready_file.remove()
        assert list(tmp_path.iterdir()) == [draft]


def test_a_ready_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    path.mkdir()
    ready_file = ReadyFile(path)
    with pytest.raises(StartError, match="cannot write the ready file"):
        ready_file.write()
    with pytest.raises(StartError, match="cannot write the ready file"):
        ready_file.remove()
    assert list(tmp_path.iterdir()) == [path]
