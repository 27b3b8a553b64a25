"""An S3 that is slow, and answers 503 to as many requests as it is told."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from pyarrow import fs

from tests.support.object_store import file_system, object_store


class Trouble(ThreadingHTTPServer):
    """Before an S3: hands requests on, after it has answered 503 to as many as it is told; each answer comes in small pieces."""

    daemon_threads = True

    def __init__(self, behind: str) -> None:
        super().__init__(("127.0.0.1", 0), Troubled)
        self.behind, self.refusals, self.refused, self.passed = behind, 0, 0, 0
        self.lock = threading.Lock()

    def refuses(self) -> bool:
        with self.lock:
            if self.refusals:
                self.refusals -= 1
                self.refused += 1
                return True
            self.passed += 1
            return False


class Troubled(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Trouble

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing."""

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.server.refuses():
            said = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
            self.send_response(503)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said if self.command != "HEAD" else b"")
            return
        line = http.client.HTTPConnection(self.server.behind)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        line.request(self.command, self.path, body, headers)
        answer = line.getresponse()
        data = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length", "server", "date"):
                self.send_header(name, value)
        self.send_header("Content-Length", answer.getheader("Content-Length") or str(len(data)))
        self.end_headers()
        for at in range(0, len(data), SLOWLY):
            self.wfile.write(data[at : at + SLOWLY])
            self.wfile.flush()
        line.close()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any


SLOWLY: Final = 512
"""Bytes of an answer that come at once."""


@contextmanager
def troubled(root: Path) -> Iterator[Trouble]:
    """With a copy of the store as `bucket/store`."""
    with object_store() as address:
        trouble = Trouble(address)
        thread = threading.Thread(target=trouble.serve_forever, args=(0.01,))
        thread.start()
        try:
            fs.copy_files(str(root), "bucket/store", destination_filesystem=file_system(address))
            yield trouble
        finally:
            trouble.shutdown()
            thread.join()
            trouble.server_close()
