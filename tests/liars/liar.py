#!/usr/bin/env python3
"""A model server that lies, to show what an operator believes: python3 liar.py LIE [--port 8000].

It speaks HTTP alone, and answers every question in the same way of lying. Needs nothing but
Python, so that it runs as a process of a test and as the only file of an image.
"""

import argparse
import http.server
import json
import os
import socketserver
import sys
import threading
import time
from collections.abc import Callable

MODEL = "liar"
MEBIBYTE = 1 << 20
HUGE_MEBIBYTES = 1024
DEEP = 100_000
TEXT = "application/json"


class Lie(http.server.BaseHTTPRequestHandler):
    """Answers GET and POST alike."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Read what there is and lie."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        LIES[self.server.lie](self)

    do_POST = do_GET  # noqa: N815 - the base class's own names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's own
        """Keep quiet."""

    def tell(self, code: int, body: bytes, **headers: str) -> None:
        """A whole answer."""
        self.send_response(code)
        for name, value in {"Content-Type": TEXT, **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def yes_while_loading(lie: Lie) -> None:
    """200 for everything, while the body says that it loads."""
    told = {"ready": False, "state": "LOADING"}
    version = {"version": "1", "state": "LOADING", "status": {}}
    status = {"code": 503, "msg": "loading", "status": "FAILURE"}
    listed = {"object": "list", "data": [{"id": MODEL, "status": {"value": "loading"}}]}
    document = {**told, "model_version_status": [version], "status": status, **listed}
    lie.tell(200, json.dumps(document).encode())


def no_only_in_the_body(lie: Lie) -> None:
    """200 with a failure of GRPS in the body, whatever is asked."""
    status = {"code": 503, "msg": "Service Unavailable", "status": "FAILURE"}
    lie.tell(200, json.dumps({"status": status, "ready": False}).encode())


def ready_when_empty(lie: Lie) -> None:
    """A server that is ready and has no model at all."""
    if lie.path in {"/v2", "/v2/health/live", "/v2/health/ready"}:
        lie.tell(200, b'{"name":"empty","version":"1","extensions":[]}')
    elif lie.path in {"/health", "/v1/models"}:
        lie.tell(200, b'{"object":"list","data":[]}')
    elif lie.path.startswith("/grps/v1/health"):
        lie.tell(200, b'{"status":{"code":200,"msg":"OK","status":"SUCCESS"}}')
    elif lie.path.startswith("/grps/v1/"):
        lie.tell(404, b'{"status":{"code":404,"msg":"no such model","status":"FAILURE"}}')
    else:
        lie.tell(404, b'{"error":"Servable not found for request: Latest(liar)"}')


def ready_with_other_models(lie: Lie) -> None:
    """A server that lists thousands of models, but not the one that it is asked for."""
    if lie.path == "/health":
        lie.tell(200, b"{}")
    elif lie.path == "/v1/models":
        models = ",".join(f'{{"id":"other-{number}"}}' for number in range(15_000))
        lie.tell(200, f'{{"object":"list","data":[{models}]}}'.encode())
    else:
        lie.tell(404, b'{"error":"Servable not found for request: Latest(liar)"}')


def hangs(lie: Lie) -> None:
    """Takes the request and never answers."""
    del lie
    time.sleep(3600)


def hangs_in_the_body(lie: Lie) -> None:
    """Promises a body and sends its first byte."""
    lie.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    time.sleep(3600)


def drips(lie: Lie) -> None:
    """A byte of its answer each tenth of a second, without an end."""
    lie.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    while True:
        lie.wfile.write(b" ")
        time.sleep(0.1)


def garbage(lie: Lie) -> None:
    """Bytes that are no HTTP."""
    lie.wfile.write(bytes(range(256)) * 64)
    lie.close_connection = True


def not_json(lie: Lie) -> None:
    """A web page."""
    lie.tell(200, b"<html><body>It works!</body></html>", Content_Type="text/html")


def redirects(lie: Lie) -> None:
    """Points to another host, which must not be asked."""
    lie.tell(302, b"", Location="http://192.0.2.1/v2/models/liar/ready")


def huge(lie: Lie) -> None:
    """One GiB of JSON."""
    lie.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (HUGE_MEBIBYTES * MEBIBYTE))
    lie.wfile.write(b"[")
    for _ in range(HUGE_MEBIBYTES):
        lie.wfile.write(b"0," * (MEBIBYTE // 2))


def huge_head(lie: Lie) -> None:
    """A header without an end."""
    lie.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    for _ in range(HUGE_MEBIBYTES):
        lie.wfile.write(b"x" * MEBIBYTE)


def bomb(lie: Lie) -> None:
    """Compressed, though nobody asked for that: a few bytes that would be many."""
    lie.tell(200, b"\x1f\x8b" + bytes(1000), Content_Encoding="gzip")


def deep(lie: Lie) -> None:
    """JSON that ends no nesting that it begins."""
    lie.tell(200, b"[" * DEEP)


def deep_in_place(lie: Lie) -> None:
    """The same where tensors, versions and states belong."""
    nested = b"[" * 500 + b"]" * 500
    fields = (b"inputs", b"outputs", b"versions", b"model_version_status", b"status", b"metadata")
    fields = (*fields, b"object", b"data", b"choices", b"error")
    members = b",".join(b'"%s":%s' % (field, nested) for field in fields)
    lie.tell(503, b'{"name":"liar",%s}' % members)


def odd_unicode(lie: Lie) -> None:
    """Words with control characters, bidirectional marks, lone surrogates and no end."""
    words = "\\u202edaeh\\u0000\\u001b[31m\\ud800 \U0001f4a9\u0301" * 200
    lie.tell(503, f'{{"ready":false,"error":"{words}","name":"{words}"}}'.encode())


def wrong_types(lie: Lie) -> None:
    """Every field of every protocol, each of another type than it has."""
    lie.tell(
        500,
        b'{"name":7,"ready":"no","error":{"a":[]},"versions":7,"inputs":{"a":1},"status":[1],'
        b'"model_version_status":{"version":[]},"metadata":7,"str_data":{},"outputs":7,'
        b'"object":["list"],"data":{"id":7},"choices":"none"}',
    )


def numbers(lie: Lie) -> None:
    """Numbers that no integer and no float has."""
    lie.tell(
        503,
        b'{"name":"liar","inputs":[{"name":"x","datatype":"FP32","shape":[1e999,-9e99,%s]}],'
        b'"status":{"code":%s,"status":%s},"state":1e999}' % ((b"9" * 400,) * 3),
    )


LIES: dict[str, Callable[[Lie], None]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        yes_while_loading,
        no_only_in_the_body,
        ready_when_empty,
        ready_with_other_models,
        hangs,
        hangs_in_the_body,
        drips,
        garbage,
        not_json,
        redirects,
        huge,
        huge_head,
        bomb,
        deep,
        deep_in_place,
        odd_unicode,
        wrong_types,
        numbers,
    )
}


class Server(http.server.ThreadingHTTPServer):
    """Has one lie; a client that goes away is no news."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], lie: str) -> None:
        self.lie = lie
        super().__init__(address, Lie)

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients close in the middle of these answers."""
        del request, client_address


def _end_with_stdin() -> None:
    """Exit when whoever started this process has closed its end of the pipe, or has died."""
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description="A model server that lies.")
    parser.add_argument("lie", choices=LIES)
    parser.add_argument("--host", default="")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--end-with-stdin", action="store_true")
    given = parser.parse_args()
    if given.end_with_stdin:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    socketserver.TCPServer.allow_reuse_address = True
    with Server((given.host, given.port), given.lie) as server:
        print(server.server_port, flush=True)  # noqa: T201 - the port that was found free
        server.serve_forever()


if __name__ == "__main__":
    main()
