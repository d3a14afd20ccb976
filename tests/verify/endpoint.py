"""An application of which only the URLs matter."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Endpoint(ThreadingHTTPServer):
    """Answers with the last segment of the path, which can be a status; and keeps its requests. `/starting`
    is answered with 503 twice.
    """

    class Handler(BaseHTTPRequestHandler):
        server: "Endpoint"

        def do_GET(self) -> None:
            self.server.requests.append((self.command, self.path))
            answer = self.path.rpartition("/")[2]
            if answer == "starting" and len(self.server.requests) < 3:
                answer = "503"
            self.send_response(int(answer) if answer in ("404", "500", "503") else 200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer.encode())

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - names of http.server

        def log_message(self, *_: object) -> None:
            pass

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.requests: list[tuple[str, str]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"
