"""The settings of a server, validated as a whole."""

import ipaddress
import re
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote

from paymock.rules.amounts import DEFAULT_FEE_BPS, MAX_FEE_BPS
from paymock.rules.clock import SPEEDS, is_speed
from paymock.text import NAMED_KEY

DEFAULT_PORT, MAX_PORT = 8402, 65_535
MEMORY_STORE = "memory://"
MEMORY_CAPACITY = 1_000_000
"""The most payments that the in-memory store keeps by default."""

OPEN_KEY_EXAMPLE = "mk_test_demo"
_PATTERNS = (
    (
        "api_keys",
        re.compile(r"[A-Za-z0-9._~+/-]+=*"),
        "an API key must consist of A-Z a-z 0-9 - . _ ~ + / (and = at its end)",
    ),
    (
        "allowed_hosts",
        re.compile(r"\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]+"),
        "an allowed host must be a name or an address, without scheme and port",
    ),
    (
        "frame_ancestors",
        re.compile(r"'self'|\*|https?://(\*\.)?[A-Za-z0-9._~-]+(:([0-9]{1,5}|\*))?"),
        "a frame ancestor must be an origin such as https://shop.example, or * or 'self'",
    ),
)

_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")

_RANGES = (
    ("port", 0, MAX_PORT),
    ("fee_bps", 0, MAX_FEE_BPS),
    ("max_payments", 1, 10**12),
    ("retention", 86_400, 10**12),
)

_OPEN_HINT = "add --api-key KEY, or --open if that is meant"
_STORE_HINT = "add --store sqlite:file.db or redis://"
_REDIS_CAPACITY = "--max-payments does not apply to Redis: set maxmemory and the policy noeviction there"
_MEMORY_RETENTION = f"--retention does not apply to {MEMORY_STORE}: omit it, or {_STORE_HINT}"
_MEMORY_SHARED = f"servers with --reuse-port cannot share {MEMORY_STORE}: {_STORE_HINT}"
_SHARED_PORT = "--reuse-port requires the --port that the servers share, not 0"
_SHARED_ON_LINUX = (
    "--reuse-port requires Linux, which distributes the connections: use a port for each server"
)


class SettingsError(ValueError):
    """Invalid settings; the message is one line for the terminal."""


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
class Settings:
    """The settings of one server.

    `host`, `port`, `allowed_hosts` and `reuse_port` are those of its Address; `retention` is in seconds;
    `frame_ancestors` are the origins that may embed the checkout, as in a Content-Security-Policy;
    `metrics_address` is HOST:PORT, and None disables the metrics; `root_path` is the path of the server at
    a proxy, empty or like /paymock. Raises SettingsError when a value is
    invalid or two contradict each other.
    """

    host: str | None = None
    port: int = DEFAULT_PORT
    reuse_port: bool = False
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    api_keys_file: Path | None = None
    open: bool = False
    allowed_hosts: tuple[str, ...] = ()
    fee_bps: int = DEFAULT_FEE_BPS
    catalog: Path | None = None
    scenarios: Path | None = None
    seed: str | None = None
    store: str = field(default=MEMORY_STORE, repr=False)
    ready_file: Path | None = None
    log: str = "text"
    access_log: bool = True
    speed: float = 1.0
    control: bool = True
    max_payments: int | None = None
    retention: int | None = None
    frame_ancestors: tuple[str, ...] = ()
    metrics_address: str | None = None
    root_path: str = ""
    exit_on_stdin_close: bool = False

    def __post_init__(self) -> None:
        for name, minimum, maximum in _RANGES:
            value = getattr(self, name)
            if value is not None and not (type(value) is int and minimum <= value <= maximum):
                raise SettingsError(f"{name} must be a number from {minimum} to {maximum}, not {value!r}")
        for name, pattern, message in _PATTERNS:
            if not all(pattern.fullmatch(value) for value in getattr(self, name)):
                raise SettingsError(message)
        address, *metrics = self.addresses
        anybody = self.open_mode and not self.open
        in_memory, in_redis = self.store == MEMORY_STORE, self.store.startswith("redis")
        has_speed = type(self.speed) in (int, float) and is_speed(self.speed)
        is_empty = self.host == "" or (self.ready_file is not None and not self.ready_file.name)
        has_root_path = re.fullmatch(r"(/[A-Za-z0-9._~-]+)*", self.root_path)
        # Invalid bytes come as lone surrogates.
        has_seed = self.seed is None or self.seed.encode(errors="ignore").decode() == self.seed
        exposed = [each for each in (address, *metrics) if anybody and not each.on_loopback]
        would = "let anybody in" if address in exposed else "let anybody read the metrics"
        bound = self.host if address in exposed else self.metrics_address
        prefixes = {match[1] for match in map(NAMED_KEY.fullmatch, self.api_keys) if match}
        for is_wrong, message in (
            (prefixes.intersection(self.api_keys), "an API key is KEY.NAME of another one, which it reveals"),
            (not has_speed, f"speed must be {SPEEDS}, not {self.speed!r}"),
            (is_empty, "the host and the ready file must not be empty"),
            (not has_root_path, "a root path begins with / and does not end with it, such as /paymock"),
            (not has_seed, "the seed must be valid UTF-8"),
            ("\0" in unquote(self.store), "the URL of the store must not contain NUL"),
            (exposed, f"binding {bound} without --api-key would {would}: {_OPEN_HINT}"),
            (in_redis and self.max_payments is not None, _REDIS_CAPACITY),
            (in_memory and self.retention is not None, _MEMORY_RETENTION),
            (in_memory and self.reuse_port, _MEMORY_SHARED),
            (self.reuse_port and self.port == 0, _SHARED_PORT),
            (self.reuse_port and sys.platform != "linux", _SHARED_ON_LINUX),
        ):
            if is_wrong:
                raise SettingsError(message)

    @property
    def payment_capacity(self) -> int | None:
        """The most payments that the store keeps, in all sandboxes together; None: no limit."""
        if self.max_payments is None and self.store == MEMORY_STORE:
            return MEMORY_CAPACITY
        return self.max_payments

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The address of the service, and that of its metrics unless they are disabled."""
        address = Address(self.host, self.port, self.allowed_hosts, self.reuse_port)
        if self.metrics_address is None:
            return (address,)
        match = _HOST_PORT.fullmatch(self.metrics_address)
        if match is None or int(match[2]) > MAX_PORT:
            raise SettingsError("a metrics address must be HOST:PORT, such as 127.0.0.1:9402 or [::1]:9402")
        option = "--metrics-address HOST:0"
        metrics = Address(match[1].strip("[]"), int(match[2]), free_port_option=option)
        if metrics.on_loopback:
            metrics = replace(metrics, allowed_hosts=self.allowed_hosts)
        return address, metrics

    @property
    def open_mode(self) -> bool:
        return not (self.api_keys or self.api_keys_file)

    def with_keys_of_file(self) -> "Settings":
        """The settings with the keys in `api_keys_file`, if given, in addition to `api_keys`. Raises
        SettingsError, whose message shows no key.
        """
        path = self.api_keys_file
        if path is None:
            return self
        try:
            if path.exists() and not path.is_file():  # a pipe could wait for ever
                raise OSError(0, "it is not a regular file")
            lines = path.read_text(encoding="utf-8-sig").split("\n")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise SettingsError(f"cannot read the file of API keys {path}: {reason}") from None
        keys = [line.partition("#")[0].strip() for line in lines]
        _, pattern, message = _PATTERNS[0]
        for number, key in enumerate(keys, 1):
            if key and not pattern.fullmatch(key):
                raise SettingsError(f"{path}, line {number}: {message}")
        if not any(keys):
            raise SettingsError(f"the file of API keys {path} has no key")
        return replace(self, api_keys=tuple(dict.fromkeys(filter(None, [*self.api_keys, *keys]))))
