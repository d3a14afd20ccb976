"""The measured servers: package, command, and requests."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from harness.api_client import ORDER

SCOPE = "mock/20250101/us-east-1/dynamodb/aws4_request"
AWS = f"AWS4-HMAC-SHA256 Credential={SCOPE}, SignedHeaders=host, Signature=x"
TABLE = {
    "TableName": "payments",
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}


class Call(NamedTuple):
    """A request. In its path, {id} is the id of the last creation."""

    method: str
    path: str
    body: str = ""
    headers: Mapping[str, str] = {}


class Peer(NamedTuple):
    """A server: its package, the command that starts it, and the requests of a creation and a read. In the
    command, {port}, {other} and {files} are two free ports and a folder of files.
    """

    name: str
    package: str
    version: str
    command: str
    create: Call
    read: Call
    setup: Call | None = None
    """A request before all others."""


CREATE, READ = Call("POST", "/v1/payments", ORDER), Call("GET", "/v1/payments/{id}")


def dynamodb(operation: str, body: object) -> Call:
    """A request to moto's DynamoDB."""
    return Call(
        "POST",
        "/",
        json.dumps(body),
        {
            "Authorization": AWS,
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": f"DynamoDB_20120810.{operation}",
        },
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
        READ,
    ),
    Peer(
        "Mockoon CLI",
        "npm:@mockoon/cli",
        "9.9.0",
        "mockoon-cli start --data {files}/openapi.yaml --hostname 127.0.0.1 --port {port} "
        "--disable-log-to-file --disable-admin-api",
        CREATE,
        READ,
    ),
    Peer(
        "mountebank",
        "npm:mountebank",
        "2.9.1",
        "mb start --host 127.0.0.1 --port {other} --configfile {files}/imposters.json "
        "--nologfile --loglevel error",
        CREATE,
        READ,
    ),
    Peer(
        "json-server",
        "npm:json-server",
        "0.17.4",
        "json-server {files}/db.json --host 127.0.0.1 --port {port} --quiet",
        Call("POST", "/payments", ORDER),
        Call("GET", "/payments/{id}"),
    ),
    Peer(
        "localstripe",
        "pip:localstripe",
        "1.15.10",
        "python {files}/localstripe_on_loopback.py {port}",
        Call(
            "POST",
            "/v1/payment_intents",
            "amount=1000&currency=usd",
            {"Authorization": "Bearer sk_test_12345", "Content-Type": "application/x-www-form-urlencoded"},
        ),
        Call("GET", "/v1/payment_intents/{id}", headers={"Authorization": "Bearer sk_test_12345"}),
    ),
    Peer(
        "moto",
        "pip:moto[server]",
        "5.2.5",
        "moto_server --host 127.0.0.1 --port {port}",
        dynamodb("PutItem", {"TableName": "payments", "Item": {"id": {"S": "pay_1"}, "order": {"S": ORDER}}}),
        dynamodb("GetItem", {"TableName": "payments", "Key": {"id": {"S": "pay_1"}}}),
        setup=dynamodb("CreateTable", TABLE),
    ),
)
