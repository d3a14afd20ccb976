"""What servers need on disk: their packages, and the files that they are given."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import NamedTuple

from benchmarks.load import authorized, created, paymock
from benchmarks.peers.servers import CREATE, READ, Peer

LOCALSTRIPE = """# localstripe's own command listens on all addresses, and logs each request.
import sys
from aiohttp import web
from localstripe.server import app
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), access_log=None)
"""


def installed(peer: Peer, scratch: Path) -> Path:
    """The folder of the peer's commands, after its installation if need be."""
    kind, _, package = peer.package.partition(":")
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


class Files(NamedTuple):
    """What servers are given: paymock's OpenAPI document, and a payment as it shows it."""

    document: bytes
    payment: str

    def write(self, folder: Path, port: int) -> None:
        """The files that the commands name; mountebank's imposter listens on `port`."""
        read_path = READ.path.format(id=json.loads(self.payment)["id"])
        stubs = [
            {
                "predicates": [{"equals": {"method": method, "path": path}}],
                "responses": [{"is": {"statusCode": status, "headers": KEPT, "body": self.payment}}],
            }
            for method, path, status in ((CREATE.method, CREATE.path, 201), (READ.method, read_path, 200))
        ]
        imposter = {"protocol": "http", "host": "127.0.0.1", "port": port, "stubs": stubs}
        (folder / "openapi.yaml").write_bytes(self.document)
        (folder / "imposters.json").write_text(json.dumps({"imposters": [imposter]}))
        (folder / "db.json").write_text('{"payments": []}')
        (folder / "localstripe_on_loopback.py").write_text(LOCALSTRIPE)


KEPT = {"Content-Type": "application/json", "Connection": "keep-alive"}
"""mountebank closes the connection after each reply unless it is told otherwise."""


def files() -> Files:
    """Takes them from a server."""
    with paymock() as server:
        payment_id = created(server.url)

        def get(path: str) -> bytes:
            request = urllib.request.Request(server.url + path, headers=authorized({}))
            with urllib.request.urlopen(request) as reply:
                body: bytes = reply.read()
                return body

        return Files(get("/openapi.yaml"), get(f"/v1/payments/{payment_id}").decode())
