"""The settings of a server, validated as a whole."""

import ipaddress
import re
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self
from urllib.parse import unquote

from paymock.cache import JOURNAL_LENGTH, MAX_JOURNAL, MIN_JOURNAL
from paymock.rules.amounts import DEFAULT_FEE_BPS, MAX_FEE_BPS
from paymock.rules.clock import SPEEDS, is_speed
from paymock.text import NAMED_KEY

DEFAULT_PORT, MAX_PORT = 8402, 65_535
MEMORY_STORE = "memory://"
MEMORY_CAPACITY = 1_000_000
"""The most payments that the in-memory store keeps by default."""

OPEN_KEY_EXAMPLE = "mk_test_demo"

_API_KEY = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_KEY_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
_ALLOWED_HOST = re.compile(r"\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]+")
_ANCESTOR = re.compile(r"'self'|\*|https?://(\*\.)?[A-Za-z0-9._~-]+(:([0-9]{1,5}|\*))?")
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_ROOT_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*")

_INVALID_KEY = "an API key must consist of A-Z a-z 0-9 - . _ ~ + / (and = at its end)"
_INVALID_KEY_NAME = "the name of a key must consist of 1 to 32 of A-Z a-z 0-9 _ -"
_INVALID_HOST = "an allowed host must be a name or an address, without scheme and port"
_INVALID_ANCESTOR = "a frame ancestor must be an origin such as https://shop.example, or * or 'self'"
_INVALID_ROOT_PATH = "a root path begins with / and does not end with it, such as /paymock"
_INVALID_METRICS = "a metrics address must be HOST:PORT, such as 127.0.0.1:9402 or [::1]:9402"
_KEY_IN_KEY = "an API key is KEY.NAME of another API key, which it would reveal"

_OPEN_HINT = "add --api-key KEY, or --open to allow that"
_STORE_HINT = "add --store sqlite:file.db or redis://"
_REDIS_CAPACITY = "--max-payments does not apply to Redis: set maxmemory and the policy noeviction there"
_MEMORY_RETENTION = f"--retention does not apply to {MEMORY_STORE}: omit it, or {_STORE_HINT}"
_MEMORY_SHARED = f"servers with --reuse-port cannot share {MEMORY_STORE}: {_STORE_HINT}"
_SHARED_PORT = "--reuse-port requires the --port that the servers share, not 0"
_LINUX_ONLY = "--reuse-port requires Linux, which distributes the connections: use a port for each server"


class SettingsError(ValueError):
    """Invalid settings; the message is one line for the terminal."""


def _require(condition: object, message: str) -> None:
    if not condition:
        raise SettingsError(message)


def _require_number(name: str, value: object, minimum: int, maximum: int) -> None:
    is_valid = value is None or (type(value) is int and minimum <= value <= maximum)
    _require(is_valid, f"{name} must be a number from {minimum} to {maximum}, not {value!r}")


@dataclass(frozen=True)
class Address:
    """Where a server listens: `host` None means both loopback addresses; `port` 0 means any free port, which
    `free_port_option` chooses; `reuse_port`: other servers may listen there, too. Requests may name
    `allowed_hosts`.
    """

    host: str | None
    port: int
    allowed_hosts: tuple[str, ...] = ()
    reuse_port: bool = False
    free_port_option: str = "--port 0"

    @property
    def on_loopback(self) -> bool:
        if self.host is None or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Where a server listens, and what it tells of it. `metrics_address` is HOST:PORT; None: no metrics."""

    host: str | None = None
    port: int = DEFAULT_PORT
    reuse_port: bool = False
    allowed_hosts: tuple[str, ...] = ()
    metrics_address: str | None = None
    ready_file: Path | None = None
    exit_on_stdin_close: bool = False
    log: str = "text"
    access_log: bool = True

    def __post_init__(self) -> None:
        _require_number("port", self.port, 0, MAX_PORT)
        _require(all(map(_ALLOWED_HOST.fullmatch, self.allowed_hosts)), _INVALID_HOST)
        has_name = self.ready_file is None or self.ready_file.name
        _require(self.host != "" and has_name, "the host and the ready file must not be empty")
        _require(not (self.reuse_port and self.port == 0), _SHARED_PORT)
        _require(not self.reuse_port or sys.platform == "linux", _LINUX_ONLY)
        match = None if self.metrics_address is None else _HOST_PORT.fullmatch(self.metrics_address)
        _require(self.metrics_address is None or (match and int(match[2]) <= MAX_PORT), _INVALID_METRICS)

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The address of the service, and that of its metrics unless they are disabled."""
        address = Address(self.host, self.port, self.allowed_hosts, self.reuse_port)
        if self.metrics_address is None:
            return (address,)
        host, _, port = self.metrics_address.rpartition(":")
        metrics = Address(host.strip("[]"), int(port), free_port_option="--metrics-address HOST:0")
        if metrics.on_loopback:
            metrics = replace(metrics, allowed_hosts=self.allowed_hosts)
        return address, metrics


@dataclass(frozen=True, kw_only=True)
class StoreSettings:
    """The store of the sandboxes, and what they begin with; `retention` is in seconds."""

    store: str = field(default=MEMORY_STORE, repr=False)
    seed: str | None = None
    speed: float = 1.0
    max_payments: int | None = None
    retention: int | None = None

    def __post_init__(self) -> None:
        _require_number("max_payments", self.max_payments, 1, 10**12)
        _require_number("retention", self.retention, 86_400, 10**12)
        has_speed = type(self.speed) in (int, float) and is_speed(self.speed)
        _require(has_speed, f"speed must be {SPEEDS}, not {self.speed!r}")
        # Invalid bytes come as lone surrogates.
        has_seed = self.seed is None or self.seed.encode(errors="ignore").decode() == self.seed
        _require(has_seed, "the seed must be valid UTF-8")
        _require("\0" not in unquote(self.store), "the URL of the store must not contain NUL")
        _require(not self.store.startswith("redis") or self.max_payments is None, _REDIS_CAPACITY)
        _require(not self.in_memory or self.retention is None, _MEMORY_RETENTION)

    @property
    def in_memory(self) -> bool:
        return self.store == MEMORY_STORE

    @property
    def payment_capacity(self) -> int | None:
        """The most payments that the store keeps, in all sandboxes together; None: no limit."""
        return MEMORY_CAPACITY if self.in_memory and self.max_payments is None else self.max_payments


@dataclass(frozen=True, kw_only=True)
class ApplicationSettings:
    """What the application serves, and to whom. `frame_ancestors` may embed the checkout, as in a
    Content-Security-Policy; `root_path` is the path of the server at a proxy, empty or like /paymock.
    """

    api_keys: tuple[str, ...] = field(default=(), repr=False)
    api_keys_file: Path | None = None
    key_names: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    fee_bps: int = DEFAULT_FEE_BPS
    journal: int = JOURNAL_LENGTH
    catalog: Path | None = None
    scenarios: Path | None = None
    control: bool = True
    frame_ancestors: tuple[str, ...] = ()
    root_path: str = ""

    def __post_init__(self) -> None:
        _require_number("fee_bps", self.fee_bps, 0, MAX_FEE_BPS)
        _require_number("journal", self.journal, MIN_JOURNAL, MAX_JOURNAL)
        _require(all(map(_API_KEY.fullmatch, self.api_keys)), _INVALID_KEY)
        _require(all(map(_ANCESTOR.fullmatch, self.frame_ancestors)), _INVALID_ANCESTOR)
        prefixes = {match[1] for match in map(NAMED_KEY.fullmatch, self.api_keys) if match}
        _require(prefixes.isdisjoint(self.api_keys), _KEY_IN_KEY)
        _require(_ROOT_PATH.fullmatch(self.root_path), _INVALID_ROOT_PATH)

    @property
    def open_mode(self) -> bool:
        return not (self.api_keys or self.api_keys_file)

    def with_keys_of_file(self) -> Self:
        """The settings with the keys in `api_keys_file`, too. Raises SettingsError, which shows no key."""
        if self.api_keys_file is None:
            return self
        named = read_keys(self.api_keys_file)
        keys, names = dict.fromkeys((*self.api_keys, *named)), [pair for pair in named.items() if pair[1]]
        _require(keys.keys().isdisjoint(named.values()), f"{self.api_keys_file} has a name that is a key")
        return replace(self, api_keys=tuple(keys), key_names=tuple(names))


def read_keys(path: Path) -> dict[str, str]:
    """Return the keys of a file, each with its name, which may be empty. Raises SettingsError."""
    try:
        if path.exists() and not path.is_file():  # a pipe could wait for ever
            raise OSError(0, "it is not a regular file")
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingsError(f"cannot read the file of API keys {path}: {reason}") from None
    keys, named = dict[str, str](), dict[str, str]()
    for number, line in enumerate(lines, 1):
        if not (words := line.partition("#")[0].split()):
            continue
        key, name, *more = *words, ""
        place = f"{path}, line {number}"
        _require(_API_KEY.fullmatch(key), f"{place}: {_INVALID_KEY}")
        _require(not name or (_KEY_NAME.fullmatch(name) and not more[1:]), f"{place}: {_INVALID_KEY_NAME}")
        _require(not name or named.setdefault(name, key) == key, f"{place}: another key has this name")
        keys[key] = name or keys.get(key, "")
    _require(keys, f"the file of API keys {path} has no key")
    return keys


@dataclass(frozen=True, kw_only=True)
class Settings(ServerSettings, StoreSettings, ApplicationSettings):
    """All settings of one server, which are valid together. `open`: anybody may use it without a key, also
    beyond loopback. Raises SettingsError for the first value that is invalid or contradicts another.
    """

    open: bool = False

    def __post_init__(self) -> None:
        ServerSettings.__post_init__(self)
        StoreSettings.__post_init__(self)
        ApplicationSettings.__post_init__(self)
        _require(not (self.in_memory and self.reuse_port), _MEMORY_SHARED)
        bound = (self.host, "let anybody in"), (self.metrics_address, "let anybody read the metrics")
        for address, (host, what) in zip(self.addresses, bound, strict=False):
            is_safe = address.on_loopback or self.open or not self.open_mode
            _require(is_safe, f"binding {host} without --api-key would {what}: {_OPEN_HINT}")
