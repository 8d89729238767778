"""Slow clients, ambiguous requests and open connections do not disturb other clients."""

import contextlib
import resource
import socket
import threading
import time

import pytest

from support.attack import (
    HEALTH_SECONDS,
    LIVE,
    exchange,
    health_checks,
    longest,
    resident_bytes,
)
from support.runtime import serving

pytestmark = pytest.mark.attack

MIB = 1024 * 1024
BODY = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}]}'
HEAD = b"POST /v2/models/numbers/infer HTTP/1.1\r\nHost: x\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
SMUGGLED = b"GET /v2/health/live HTTP/1.1\r\nHost: smuggled\r\n\r\n"
# Each is refused, and no bytes after it are processed as a request.
AMBIGUOUS = {
    "both framings": HEAD + LENGTH + CHUNKED + b"\r\n0\r\n\r\n" + SMUGGLED,
    "both framings, the other order": HEAD + CHUNKED + LENGTH + b"\r\n0\r\n\r\n" + SMUGGLED,
    "two lengths": HEAD + LENGTH + b"Content-Length: 0\r\n\r\n" + SMUGGLED,
    "two lengths in one line": HEAD + b"Content-Length: 0, 5\r\n\r\n" + SMUGGLED,
    "a signed length": HEAD + b"Content-Length: +0\r\n\r\n" + SMUGGLED,
    "a hexadecimal length": HEAD + b"Content-Length: 0x5\r\n\r\n" + SMUGGLED,
    "a length beyond 64 bits": HEAD + b"Content-Length: 18446744073709551616\r\n\r\n" + SMUGGLED,
    "a folded header": HEAD + b"X: a\r\n Content-Length: 5\r\n\r\n" + SMUGGLED,
    "a folded coding": HEAD + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "a blank before the colon": HEAD + b"Transfer-Encoding : chunked\r\n\r\n" + SMUGGLED,
    "another coding": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "chunked twice": HEAD + CHUNKED + CHUNKED + b"\r\n0\r\n\r\n" + SMUGGLED,
    "a negative chunk": HEAD + CHUNKED + b"\r\n-1\r\n\r\n" + SMUGGLED,
    "a chunk beyond 64 bits": HEAD + CHUNKED + b"\r\n10000000000000000\r\n" + SMUGGLED,
    "a chunk with a wrong end": HEAD + CHUNKED + b"\r\n1\r\nxGET /" + SMUGGLED,
    "endless chunk extensions": HEAD + CHUNKED + b"\r\n1;" + b"a" * 300_000,
    "a bare line feed": HEAD + CHUNKED.replace(b"\r\n", b"\n") + b"\r\n0\r\n\r\n" + SMUGGLED,
    "a NUL in a header": HEAD + b"X: a\0b\r\n\r\n" + SMUGGLED,
    "two hosts": HEAD + b"Host: y\r\n\r\n" + SMUGGLED,
    "HTTP/1.0 with chunks": HEAD.replace(b"1.1", b"1.0") + CHUNKED + b"\r\n0\r\n\r\n" + SMUGGLED,
    "many headers": HEAD + b"X: a\r\n" * 200 + b"\r\n" + SMUGGLED,
    "a large header": HEAD + b"X: " + b"a" * 40_000 + b"\r\n\r\n" + SMUGGLED,
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_an_ambiguous_request_is_refused_once_and_ends_its_connection(server, name):
    answer = exchange(server.http_port, AMBIGUOUS[name])

    assert answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 501"))
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in answer.lower()


def test_thousands_of_pipelined_upgrades_are_answered(server):
    one = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"
    last = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    data = one * 3000 + last
    received = bytearray()
    with socket.create_connection(("127.0.0.1", server.http_port), 30) as client:
        sender = threading.Thread(target=client.sendall, args=(data,))
        sender.start()
        while piece := client.recv(65536):
            received += piece
        sender.join()

    assert received.count(b"HTTP/1.1 200") == 3001


@pytest.mark.parametrize(
    "start",
    [b"GE", HEAD, HEAD + LENGTH + b"\r\n" + BODY[:5], HEAD + CHUNKED + b"\r\n5\r\nab"],
    ids=["request line", "headers", "body", "chunk"],
)
def test_slow_clients_do_not_delay_health_checks(server, start):
    clients = []
    try:
        for _ in range(300):
            client = socket.create_connection(("127.0.0.1", server.http_port), 30)
            client.sendall(start)
            clients.append(client)
        with health_checks(server.http_port, server.process.pid) as waits:
            for _ in range(3):
                for client in clients:
                    with contextlib.suppress(OSError):
                        client.sendall(b"a")
    finally:
        for client in clients:
            client.close()

    assert longest(waits) < HEALTH_SECONDS


def test_ten_thousand_connections_leave_room_for_a_health_check(repository):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 10_000
    if hard < wanted + 500:
        pytest.skip(f"at most {hard} descriptors are allowed here, fewer than {wanted} clients")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted + 500), hard))
    clients = []
    try:
        with serving(repository) as runtime:
            before = resident_bytes(runtime.process.pid)
            for number in range(wanted):
                client = socket.create_connection(("127.0.0.1", runtime.http_port), 30)
                if number % 2:
                    client.sendall(b"GET /v2/health/live HTTP/1.1\r\nHo")
                clients.append(client)
            time.sleep(2.5)  # so that the last of them are idle for longer than a second
            begun = time.monotonic()
            assert exchange(
                runtime.http_port, LIVE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
            ).startswith(b"HTTP/1.1 200")
            assert time.monotonic() - begun < 5
            assert resident_bytes(runtime.process.pid) - before < 200 * MIB
            for client in clients:
                client.close()
            clients.clear()
            assert runtime.get("/v2/health/ready").status_code == 200
    finally:
        for client in clients:
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
