"""Installation of the servers, and the files that they serve from."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import NamedTuple

from benchmarks.load import create_payment, paymock
from benchmarks.peers.servers import CREATE, READ, Peer
from harness.api_client import request_headers

LOCALSTRIPE = """# localstripe's own command listens on all addresses, and logs each request.
import sys
from aiohttp import web
from localstripe.server import app
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), access_log=None)
"""


def install(peer: Peer, scratch: Path) -> Path:
    """The folder of the server's commands. Installs a package if it is missing."""
    kind, _, package = peer.package.partition(":")
    if kind == "path":
        return Path(package)
    if not kind:
        return Path(sys.executable).parent
    folder = scratch / f"{peer.name}-{peer.version}".replace(" ", "-").lower()
    done = folder / "installed"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        print(f"installing {package} {peer.version}", file=sys.stderr)
        if kind == "npm":
            options = ["--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
            command = ["npm", "install", "--prefix", str(folder), *options, f"{package}@{peer.version}"]
        else:
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            command = [str(folder / "bin" / "pip"), "install", "-qq", f"{package}=={peer.version}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        done.touch()
    return folder / ("node_modules/.bin" if kind == "npm" else "bin")


class ServerFiles(NamedTuple):
    """paymock's OpenAPI document, and the JSON of a payment."""

    document: bytes
    payment: str

    def write(self, folder: Path, port: int) -> None:
        """Write the files that the commands name; mountebank's imposter listens on `port`."""
        create = [{"equals": {"method": CREATE.method, "path": CREATE.path}}]
        read = [{"equals": {"method": READ.method}}, {"startsWith": {"path": f"{CREATE.path}/"}}]
        stubs = [
            {
                "predicates": predicates,
                "responses": [{"is": {"statusCode": status, "headers": KEEP_ALIVE, "body": self.payment}}],
            }
            for predicates, status in ((create, 201), (read, 200))
        ]
        imposter = {"protocol": "http", "host": "127.0.0.1", "port": port, "stubs": stubs}
        (folder / "openapi.yaml").write_bytes(self.document)
        (folder / "imposters.json").write_text(json.dumps({"imposters": [imposter]}))
        (folder / "db.json").write_text('{"payments": []}')
        (folder / "localstripe_on_loopback.py").write_text(LOCALSTRIPE)


KEEP_ALIVE = {"Content-Type": "application/json", "Connection": "keep-alive"}
"""mountebank closes the connection after each reply without this header."""


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
