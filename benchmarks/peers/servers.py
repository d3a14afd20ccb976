"""The measured servers: package, command, and loads."""

import json
import subprocess
from pathlib import Path
from typing import NamedTuple

from harness.api_client import API_KEY
from harness.load import CLIENT_HEADERS, HEX_32, NEW_ORDER_ID, Load, create_load

SCOPE = "mock/20250101/us-east-1/dynamodb/aws4_request"
AWS = f"AWS4-HMAC-SHA256 Credential={SCOPE}, SignedHeaders=host, Signature=x"
TABLE = {
    "TableName": "payments",
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}


class Peer(NamedTuple):
    """A server: its package, the command that starts it, and the loads of creations and reads. In the
    command, {port}, {other} and {files} are two free ports and a folder of files.
    """

    name: str
    package: str
    version: str
    command: str
    create: Load
    read: Load
    setup: Load | None = None
    """A request before all others."""


RANDOM_ID = "<hex>" * 11
HEADERS = {**CLIENT_HEADERS, "Authorization": f"Bearer {API_KEY}"}
CREATE, READ = create_load(), Load("GET", "/v1/payments/<id>", headers=HEADERS)
READ_ANY = READ._replace(path=f"/v1/payments/pay_{RANDOM_ID}")
"""For servers that store nothing, and reply to every id."""

STRIPE_HEADERS = {**CLIENT_HEADERS, "Authorization": "Bearer sk_test_12345"}
CREATE_INTENT = Load(
    "POST",
    "/v1/payment_intents",
    f"amount=1<digits>&currency=usd&metadata[order_id]={NEW_ORDER_ID}",
    {**STRIPE_HEADERS, "Content-Type": "application/x-www-form-urlencoded", "Idempotency-Key": HEX_32},
)
READ_INTENT = Load("GET", "/v1/payment_intents/<id>", headers=STRIPE_HEADERS)


ITEM = {"id": {"S": f"pay_{RANDOM_ID}"}, "order": {"S": CREATE.body}}


def dynamodb(operation: str, body: object) -> Load:
    """A request to moto's DynamoDB."""
    headers = {
        "Authorization": AWS,
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": f"DynamoDB_20120810.{operation}",
    }
    return Load("POST", "/", json.dumps(body), CLIENT_HEADERS | headers)


def stripe_mock(program: Path) -> Peer:
    """The server of this program."""
    run = subprocess.run([program, "-version"], capture_output=True, text=True, check=True)
    return Peer(
        "stripe-mock",
        f"path:{program.resolve().parent}",
        run.stdout.split()[-1],
        f"{program.name} -http-port {{port}}",
        CREATE_INTENT,
        READ_INTENT._replace(path=f"/v1/payment_intents/pi_{RANDOM_ID}"),
    )


PAYMOCK = "paymock"
PEERS = (
    Peer(PAYMOCK, "", "", "python -m paymock serve --port {port} --no-access-log", CREATE, READ),
    Peer(
        "Prism",
        "npm:@stoplight/prism-cli",
        "5.14.2",
        "prism mock {files}/openapi.yaml --host 127.0.0.1 --port {port} --verboseLevel error",
        CREATE,
        READ_ANY,
    ),
    Peer(
        "Mockoon CLI",
        "npm:@mockoon/cli",
        "9.9.0",
        "mockoon-cli start --data {files}/openapi.yaml --hostname 127.0.0.1 --port {port} "
        "--disable-log-to-file --disable-admin-api",
        CREATE,
        READ_ANY,
    ),
    Peer(
        "mountebank",
        "npm:mountebank",
        "2.9.1",
        "mb start --host 127.0.0.1 --port {other} --configfile {files}/imposters.json "
        "--nologfile --loglevel error",
        CREATE,
        READ_ANY,
    ),
    Peer(
        "json-server",
        "npm:json-server",
        "0.17.4",
        "json-server {files}/db.json --host 127.0.0.1 --port {port} --quiet",
        CREATE._replace(path="/payments"),
        READ._replace(path="/payments/<id>"),
    ),
    Peer(
        "localstripe",
        "pip:localstripe",
        "1.15.10",
        "python {files}/localstripe_on_loopback.py {port}",
        CREATE_INTENT,
        READ_INTENT,
    ),
    Peer(
        "moto",
        "pip:moto[server]",
        "5.2.5",
        "moto_server --host 127.0.0.1 --port {port}",
        dynamodb("PutItem", {"TableName": "payments", "Item": ITEM}),
        dynamodb("GetItem", {"TableName": "payments", "Key": {"id": {"S": "<id>"}}}),
        setup=dynamodb("CreateTable", TABLE),
    ),
)
