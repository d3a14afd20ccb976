"""Installation of the servers, and the files that they serve from."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import NamedTuple

from benchmarks.load import create_payment, paymock
from benchmarks.peers.servers import CREATE, PACKAGES
from harness.api_client import request_headers


def install(folder: Path) -> Path:
    """npm's folder of PACKAGES, which are installed there if they are missing."""
    wanted, installed = "\n".join(PACKAGES), folder / "installed"
    if not installed.exists() or installed.read_text() != wanted:
        folder.mkdir(parents=True, exist_ok=True)
        print(f"installing {', '.join(PACKAGES)}", file=sys.stderr)
        options = ["--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
        command = ["npm", "install", "--prefix", str(folder), *options, *PACKAGES]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        installed.write_text(wanted)
    return folder / "node_modules"


class ServerFiles(NamedTuple):
    """paymock's OpenAPI document, and the JSON of a payment."""

    document: bytes
    payment: str

    def write(self, folder: Path) -> None:
        """Write the files of Prism and of WireMock."""
        reply = {"headers": {"Content-Type": "application/json"}, "body": self.payment}
        stubs = [
            {"request": {"method": "POST", "urlPath": CREATE.path}, "response": {"status": 201, **reply}},
            {
                "request": {"method": "GET", "urlPathPattern": f"{CREATE.path}/[^/]+"},
                "response": {"status": 200, **reply},
            },
        ]
        (folder / "openapi.yaml").write_bytes(self.document)
        (folder / "mappings").mkdir()
        (folder / "mappings" / "payments.json").write_text(json.dumps({"mappings": stubs}))


def create_server_files() -> ServerFiles:
    """Fetch the files from a running paymock."""
    with paymock() as server:
        payment_id = create_payment(server.url)

        def get(path: str) -> bytes:
            request = urllib.request.Request(server.url + path, headers=request_headers())
            with urllib.request.urlopen(request) as reply:
                body: bytes = reply.read()
                return body

        return ServerFiles(get("/openapi.yaml"), get(f"/v1/payments/{payment_id}").decode())
