import math
import os
from pathlib import Path
from typing import Any

import pytest

from paymock.settings import Settings, SettingsError


@pytest.mark.parametrize(
    "values",
    [
        {"port": -1},
        {"port": 70_000},
        {"port": "8402"},
        {"port": True},
        {"fee_bps": -1},
        {"fee_bps": 2.5},
        {"speed": -1},
        {"speed": 1e-320},
        {"speed": True},
        {"speed": 1e9},
        {"speed": math.nan},
        {"speed": math.inf},
        {"speed": "fast"},
        {"max_payments": 0},
        {"retention": 3600, "store": "redis://localhost"},
        {"host": ""},
        *({"root_path": path} for path in ("paymock", "/paymock/", "/", "/a b", "//x")),
        {"api_keys": ("two words",)},
        {"allowed_hosts": ("http://shop.example",)},
        {"host": "0.0.0.0"},
        {"reuse_port": True},
        {"reuse_port": True, "store": "redis://localhost", "port": 0},
        {"retention": 86_400},
        {"max_payments": 5, "store": "redis://localhost"},
        *(
            {"frame_ancestors": (origin,)}
            for origin in (
                "",
                "shop.example",
                "https://",
                "https://shop.example/",
                "https://shop.example/path",
                "https://user@shop.example",
                "https://shop.example:https",
                "https://shop.example:123456",
                "https://shop.*",
                "https://shop.example https://other.example",
                "https://shop.example; script-src *",
                "https://shop.example\r\nX-Header: 1",
                "javascript:alert(1)",
                "data:",
                "none",
                "'none'",
                "'unsafe-inline'",
            )
        ),
        {"seed": "caf\udce9"},
        {"store": "sqlite:///%00"},
        {"store": "sqlite:///paymock.db\0"},
    ],
)
def test_invalid_settings_are_refused_in_one_line(values: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings(**values)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "values",
    [
        {"speed": 0},
        {"speed": 0.5},
        {"port": 0, "fee_bps": 0},
        {"retention": 86_400, "store": "sqlite:///var/lib/paymock.db"},
        {"max_payments": 5},
        {"frame_ancestors": ("https://shop.example", "http://localhost:3000", "https://*.shop.example:*")},
        {"frame_ancestors": ("*",)},
        {"frame_ancestors": ("'self'",)},
    ],
)
def test_valid_settings_are_accepted(values: dict[str, Any]) -> None:
    settings = Settings(**values)
    assert {name: getattr(settings, name) for name in values} == values


def test_a_port_is_shared_on_linux_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    shared: dict[str, Any] = {"reuse_port": True, "store": "sqlite:///var/lib/paymock.db"}
    monkeypatch.setattr("sys.platform", "linux")
    assert Settings(**shared).addresses[0].reuse_port
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(SettingsError, match="requires Linux"):
        Settings(**shared)


@pytest.mark.parametrize(
    ("content", "keys"),
    [
        (b"key-1\nkey-2", ("own", "key-1", "key-2")),
        (b"\xef\xbb\xbf# of the teams\r\n\r\n  key-1 # team a\r\n#key-2\r\nown\r\n", ("own", "key-1")),
    ],
)
def test_the_keys_of_a_file_are_added(tmp_path: Path, content: bytes, keys: tuple[str, ...]) -> None:
    file = tmp_path / "keys.txt"
    file.write_bytes(content)
    settings = Settings(host="0.0.0.0", api_keys=("own",), api_keys_file=file)
    assert settings.with_keys_of_file().api_keys == keys


def test_a_file_names_keys(tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    file.write_text("key-1 acme\nkey-2\nkey-3\tOther_1-x # of a team\n")
    settings = Settings(api_keys_file=file).with_keys_of_file()
    assert settings.api_keys == ("key-1", "key-2", "key-3")
    assert settings.key_names == (("key-1", "acme"), ("key-3", "Other_1-x"))
    assert "key-1" not in repr(settings)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot read the file of API keys {}: No such file or directory"),
        (b"", "the file of API keys {} has no key"),
        (b"\n # key-1\n\n", "the file of API keys {} has no key"),
        (b"key-1\n\nsecret! two\n", "{}, line 3: an API key must consist of"),
        (b"secret-1 two words", "{}, line 1: the name of a key must consist of 1 to 32 of"),
        (b"secret-1 " + b"n" * 33, "{}, line 1: the name of a key must consist of 1 to 32 of"),
        (b"secret-1 acme\nsecret-2 acme", "{}, line 2: another key has this name"),
        (b"secret-1 own", "{} has a name that is a key"),
        (b"caf\xe9", "cannot read the file of API keys {}: it is not UTF-8"),
        (b"own.secret-1", "an API key is KEY.NAME of another API key"),
        ("FIFO", "cannot read the file of API keys {}: it is not a regular file"),
    ],
)
def test_a_file_of_keys_that_cannot_be_used_is_refused_without_showing_a_key(
    tmp_path: Path, content: bytes | str | None, reason: str
) -> None:
    file = tmp_path / "keys.txt"
    if content == "FIFO":
        os.mkfifo(file)
    elif isinstance(content, bytes):
        file.write_bytes(content)
    settings = Settings(api_keys=("own",), api_keys_file=file)
    assert not settings.open_mode
    with pytest.raises(SettingsError) as caught:
        settings.with_keys_of_file()
    assert str(caught.value).startswith(reason.format(file))
    assert "secret" not in str(caught.value)
