#!/usr/bin/env python3
"""Model servers that attack who asks them: python3 hostile.py NAME [--port 8000].

Each is a function that has the connection and answers every question in its own way. Needs nothing
but Python, so that it runs as a process of a test, and on any machine.
"""

import argparse
import itertools
import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

MEBIBYTE = 1 << 20
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
NO = b'{"ready":false,"error":"no"}'
BATCH = 64 << 10
"""Bytes that a flood sends at a time."""

Program = Callable[["Talk"], None]


class Talk:
    """One connection, and what was asked on it."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.method = self.path = ""
        self._rest = b""

    def read_request(self) -> bool:
        """Read one HTTP request; whether there was one."""
        while b"\r\n\r\n" not in self._rest:
            data = self.connection.recv(BATCH)
            if not data:
                return False
            self._rest += data
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        self.method, self.path = head.decode().split(" ")[:2]
        return True

    def read(self, count: int) -> bytes:
        """So many bytes."""
        while len(self._rest) < count:
            data = self.connection.recv(BATCH)
            if not data:
                raise ConnectionError
            self._rest += data
        found, self._rest = self._rest[:count], self._rest[count:]
        return found

    def send(self, data: bytes) -> None:
        """These bytes."""
        self.connection.sendall(data)

    def flood(self, unit: bytes) -> None:
        """The same bytes until the other side closes."""
        batch = unit * max(1, BATCH // len(unit))
        while True:
            self.connection.sendall(batch)

    def drip(self, data: bytes, seconds: float = 0.02) -> None:
        """The same bytes without an end, one at a time."""
        for each in itertools.cycle(data):
            self.connection.sendall(bytes([each]))
            time.sleep(seconds)

    def tell(self, body: bytes, code: int = 200, head: bytes = b"") -> None:
        """A whole answer."""
        self.send(
            b"HTTP/1.1 %d -\r\nContent-Length: %d\r\n" % (code, len(body)) + head + b"\r\n" + body
        )

    def tell_json(self, document: object, code: int = 200, head: bytes = b"") -> None:
        """A whole answer in JSON."""
        self.tell(json.dumps(document).encode(), code, head)

    def tell_grps(self, text: str) -> None:
        """A success of GRPS with a text, where one is asked for."""
        text = "" if "/health/" in self.path else text
        status = {"code": 200, "msg": "OK", "status": "SUCCESS"}
        self.tell_json({"status": status, "str_data": text})


# ---------------------------------------------------------------------- a good one


def good(talk: Talk) -> None:
    """A small model that is ready, for comparison."""
    _as_open_inference(talk, "iris", "x")


def _as_open_inference(talk: Talk, name: str, tensor: str, head: bytes = b"") -> None:
    if talk.path == "/v2":
        talk.tell_json({"name": name, "version": name, "extensions": []}, head=head)
    elif talk.path.endswith("/ready") or talk.path.startswith("/v2/health"):
        talk.tell(b"", head=head)
    else:
        told = [{"name": tensor, "datatype": "FP32", "shape": [-1, 4]}]
        document = {"name": name, "platform": tensor, "versions": [tensor]}
        talk.tell_json({**document, "inputs": told, "outputs": told}, head=head)


# ---------------------------------------------------------------------- around the body


def interim_flood(talk: Talk) -> None:
    """Interim responses without an end."""
    talk.flood(b"HTTP/1.1 100 Continue\r\n\r\n")


def interim_hints(talk: Talk) -> None:
    """The same with headers."""
    talk.flood(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")


def header_flood(talk: Talk) -> None:
    """Short headers without an end."""
    talk.send(OK)
    talk.flood(b"A: b\r\n")


def header_without_end(talk: Talk) -> None:
    """One header without an end."""
    talk.send(OK + b"X-Long: ")
    talk.flood(b"x")


def trailers_without_end(talk: Talk) -> None:
    """A whole body, and trailers without an end."""
    talk.send(CHUNKED + b"0\r\n")
    talk.flood(b"A: b\r\n")


def chunks_of_one_byte(talk: Talk) -> None:
    """A body in chunks of one byte."""
    talk.send(CHUNKED)
    talk.flood(b"1\r\n \r\n")


def chunk_extensions(talk: Talk) -> None:
    """Chunks that are all extension."""
    talk.send(CHUNKED)
    talk.flood(b"1;" + b"x" * 1000 + b"\r\n \r\n")


def chunk_size_huge(talk: Talk) -> None:
    """A chunk of a tebibyte and more."""
    talk.send(CHUNKED + b"fffffffffff\r\n")
    talk.flood(b" ")


def chunk_size_without_end(talk: Talk) -> None:
    """Digits of a chunk's size without an end."""
    talk.send(CHUNKED)
    talk.flood(b"f")


def chunk_size_negative(talk: Talk) -> None:
    """A chunk of less than nothing."""
    talk.send(CHUNKED + b"-1\r\nx\r\n0\r\n\r\n")


def chunk_overrun(talk: Talk) -> None:
    """A chunk that does not end where it says."""
    talk.send(CHUNKED + b"1\r\n" + b"x" * BATCH)


def two_lengths(talk: Talk) -> None:
    """A body of two lengths."""
    talk.send(OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ")


def length_negative(talk: Talk) -> None:
    """A body of less than nothing."""
    talk.send(OK + b"Content-Length: -5\r\n\r\n{}")


def redirects_without_end(talk: Talk) -> None:
    """Each answer points to the next."""
    talk.tell(b"", 302, b"Location: http://127.0.0.1:%d/\r\n" % talk.connection.getsockname()[1])


def dates_that_jump(talk: Talk) -> None:
    """A good model whose clock is in the year 9999, then in 1970."""
    dates = [b"Fri, 31 Dec 9999 23:59:59 GMT", b"Thu, 01 Jan 1970 00:00:00 GMT"]
    date = (next(_jumps) and dates[0]) or dates[1]
    head = b"Date: %s\r\nRetry-After: 99999999999\r\nAge: -1\r\n" % date
    _as_open_inference(talk, "iris", "x", head)


_jumps: Iterator[bool] = itertools.cycle([True, False])


# ---------------------------------------------------------------------- timing


def silent(talk: Talk) -> None:
    """No answer at all."""
    del talk
    time.sleep(3600)


def drips_head(talk: Talk) -> None:
    """A head, byte by byte."""
    talk.send(OK + b"X: ")
    talk.drip(b"x")


def drips_body(talk: Talk) -> None:
    """A body, byte by byte."""
    talk.send(OK + b"Content-Length: 60000\r\n\r\n")
    talk.drip(b" ")


def drips_chunks(talk: Talk) -> None:
    """Chunks, byte by byte."""
    talk.send(CHUNKED)
    talk.drip(b"1\r\n \r\n")


# ---------------------------------------------------------------------- bodies


def json_huge(talk: Talk) -> None:
    """A body without an end."""
    talk.send(OK + b"Content-Length: %d\r\n\r\n[" % (1 << 40))
    talk.flood(b"[],")


def json_of_a_mebibyte(talk: Talk) -> None:
    """The largest body that is read, full of empty lists."""
    body = b'{"ready":false,"error":"no","x":[' + b"[]," * (MEBIBYTE // 3 - 20) + b"0]}"
    talk.tell(body, 503)


def json_of_lists_where_there_is_room(talk: Talk) -> None:
    """A short no, and the same in every longer answer: the index, the metadata."""
    if talk.path.endswith("/ready") or talk.path.startswith("/v2/health"):
        talk.tell(NO, 503)
    else:
        talk.tell(b"[" + b"[]," * (MEBIBYTE // 3 - 20) + b"0]")


def json_deep(talk: Talk) -> None:
    """Nesting that never ends."""
    talk.tell(b'{"ready":' + b"[" * 60000, 503)


def json_keys(talk: Talk) -> None:
    """An object of many keys."""
    keys = b",".join(b'"%x":0' % number for number in range(6000))
    talk.tell(b'{"ready":false,%s}' % keys, 503)


def json_numbers(talk: Talk) -> None:
    """Numbers of many digits, and states of every type."""
    nine = b"9" * 4000
    talk.tell(b'{"ready":false,"state":%s,"error":%s}' % (nine, nine), 503)


def unicode_invalid(talk: Talk) -> None:
    """Text that is no UTF-8."""
    talk.tell(b'{"ready":false,"error":"\xff\xfe\xc0\x80\xed\xa0\x80"}', 503)


def unicode_control(talk: Talk) -> None:
    """A good model whose names turn the line around, clear the terminal and end the string."""
    _as_open_inference(talk, "srv\u202e\x1b[2J\x00", "x\u202etxt\u2066\x1b[31m\r\n\x07")


def another_model(talk: Talk) -> None:
    """Says yes of another model than the one that it is asked for."""
    talk.tell_json({"name": "somebody-else", "ready": True})


def _as_openai(talk: Talk, names: Iterator[str] | list[str]) -> None:
    """OpenAI: ready, with models of these names."""
    if talk.path == "/health":
        talk.tell(b"")
    else:
        talk.tell_json(
            {"object": "list", "data": [{"id": name, "owned_by": name} for name in names]}
        )


def models_of_others(talk: Talk) -> None:
    """OpenAI: the longest list of models that is read, all of them others."""
    _as_openai(talk, [f"model-{number}" for number in range(15_000)])


def models_without_end(talk: Talk) -> None:
    """OpenAI: more models than are read."""
    _as_openai(talk, [str(number) for number in range(28_000)])


def models_unicode(talk: Talk) -> None:
    """OpenAI: names of models that turn the line around and clear the terminal."""
    _as_openai(talk, ["\u202e\x1b[2J\x00" * 50] * 100)


def models_deep(talk: Talk) -> None:
    """OpenAI: the wanted model, with lists where its words and numbers belong."""
    deep = b"[" * 400 + b"]" * 400
    entry = b'{"id":"iris","owned_by":%s,"meta":%s,"status":%s,"max_model_len":%s}' % ((deep,) * 4)
    if talk.path == "/health":
        talk.tell(b"")
    else:
        talk.tell(b'{"object":"list","data":[%s]}' % b",".join([entry] * 10))


def status_deep(talk: Talk) -> None:
    """TensorFlow Serving's status, with lists where its words belong."""
    deep = b"[" * 400 + b"]" * 400
    entry = b'{"version":%s,"state":%s,"status":{"error_code":%s}}' % (deep, deep, deep)
    talk.tell(b'{"model_version_status":[%s]}' % b",".join([entry] * 60))


def yaml_alias_bomb(talk: Talk) -> None:
    """GRPS: a text of 600 bytes that stands for 10^9 words."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    talk.tell_grps("\n".join(["name: iris", *lines, "version: *a8", "ready: *a8"]))


def yaml_deep(talk: Talk) -> None:
    """GRPS: nesting that never ends."""
    talk.tell_grps("name: iris\ninputs: " + "[" * 60000)


def yaml_huge(talk: Talk) -> None:
    """GRPS: the longest text that is read, all nodes."""
    talk.tell_grps("name: iris\ninputs:\n" + "- a\n" * 16000)


# ---------------------------------------------------------------------- gRPC

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, CONTINUATION = 0, 1, 3, 4, 6, 9
END_STREAM, END_HEADERS = 1, 4
# :status 200 of the static table, and content-type: application/grpc as a literal.
RESPONSE = b"\x88\x00\x0ccontent-type\x10application/grpc"
# The status of a GrpsMessage: 200 OK, SUCCESS.
SUCCESS = b"\x0a\x09\x08\xc8\x01\x12\x02OK\x18\x01"
TRAILERS = b"\x00\x0bgrpc-status\x010"


def frame(kind: int, payload: bytes = b"", stream: int = 0, flags: int = 0) -> bytes:
    """An HTTP/2 frame."""
    return (
        struct.pack(">I", len(payload))[1:]
        + bytes([kind, flags])
        + struct.pack(">I", stream)
        + payload
    )


def _settled(talk: Talk) -> None:
    talk.read(len(PREFACE))
    talk.send(frame(SETTINGS) + frame(SETTINGS, flags=1))


def _next_stream(talk: Talk) -> int:
    """The stream of the next request."""
    while True:
        head = talk.read(9)
        talk.read(int.from_bytes(head[:3]))
        if head[3] == HEADERS:
            return int.from_bytes(head[5:9])


def _answered(body: bytes) -> Program:
    """A server that answers every call with this message, as far as the window allows."""

    def answer(talk: Talk) -> None:
        _settled(talk)
        while True:
            stream = _next_stream(talk)
            talk.send(frame(HEADERS, RESPONSE, stream, END_HEADERS))
            message = b"\0" + struct.pack(">I", len(body)) + body
            # Larger messages would need to follow the window.
            for at in range(0, len(message), 16 << 10):
                talk.send(frame(DATA, message[at : at + (16 << 10)], stream))
            talk.send(frame(HEADERS, TRAILERS, stream, END_HEADERS | END_STREAM))

    return answer


def h2_settings_flood(talk: Talk) -> None:
    """SETTINGS without an end, each of which wants to be acknowledged."""
    _settled(talk)
    talk.flood(frame(SETTINGS, struct.pack(">HI", 3, 100)))


def h2_ping_flood(talk: Talk) -> None:
    """PING without an end, each of which wants to be answered."""
    _settled(talk)
    talk.flood(frame(PING, bytes(8)))


def h2_reset_flood(talk: Talk) -> None:
    """Every call is reset, many times."""
    _settled(talk)
    while True:
        stream = _next_stream(talk)
        talk.send(frame(RESET, struct.pack(">I", 7), stream) * 5000)


def h2_continuation_flood(talk: Talk) -> None:
    """Headers that go on in CONTINUATION frames without an end."""
    _settled(talk)
    stream = _next_stream(talk)
    talk.send(frame(HEADERS, RESPONSE, stream))
    talk.flood(frame(CONTINUATION, b"\x00\x01a\x01b" * 100, stream))


def h2_empty_data_flood(talk: Talk) -> None:
    """Empty DATA frames without an end."""
    _settled(talk)
    stream = _next_stream(talk)
    talk.send(frame(HEADERS, RESPONSE, stream, END_HEADERS))
    talk.flood(frame(DATA, b"", stream))


def h2_huge_message(talk: Talk) -> None:
    """A message that says that it has a gibibyte."""
    _settled(talk)
    stream = _next_stream(talk)
    talk.send(frame(HEADERS, RESPONSE, stream, END_HEADERS))
    talk.send(frame(DATA, b"\0" + struct.pack(">I", 1 << 30), stream))
    talk.flood(frame(DATA, bytes(16 << 10), stream))


def h2_stream_without_end(talk: Talk) -> None:
    """Message after message for a call that has one answer."""
    _settled(talk)
    stream = _next_stream(talk)
    talk.send(frame(HEADERS, RESPONSE, stream, END_HEADERS))
    talk.drip(frame(DATA, b"\0\0\0\0\0", stream), seconds=0.001)


def h2_silent(talk: Talk) -> None:
    """Settings and nothing more."""
    _settled(talk)
    time.sleep(3600)


def protobuf_of_empty_messages(talk: Talk) -> None:
    """Messages of two bytes each, as many as go into the first window."""
    _answered(b"\x0a\x00" * 30000)(talk)


def protobuf_deep(talk: Talk) -> None:
    """Messages within messages."""
    body = b""
    while len(body) < 50000:
        size = len(body)
        length = b""
        while size > 127:
            length += bytes([size & 127 | 128])
            size >>= 7
        body = b"\x0a" + length + bytes([size]) + body
    _answered(body)(talk)


def protobuf_yaml_alias_bomb(talk: Talk) -> None:
    """GRPS over gRPC: the alias bomb in a message."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    text = "\n".join(["name: iris", *lines, "version: *a8"]).encode()
    size = bytes([len(text) & 127 | 128, len(text) >> 7])
    _answered(SUCCESS + b"\x22" + size + text)(talk)


PROGRAMS: dict[str, Program] = {
    each.__name__.replace("_", "-"): each
    for each in (
        good,
        interim_flood,
        interim_hints,
        header_flood,
        header_without_end,
        trailers_without_end,
        chunks_of_one_byte,
        chunk_extensions,
        chunk_size_huge,
        chunk_size_without_end,
        chunk_size_negative,
        chunk_overrun,
        two_lengths,
        length_negative,
        redirects_without_end,
        dates_that_jump,
        silent,
        drips_head,
        drips_body,
        drips_chunks,
        json_huge,
        json_of_a_mebibyte,
        json_of_lists_where_there_is_room,
        json_deep,
        json_keys,
        json_numbers,
        unicode_invalid,
        unicode_control,
        another_model,
        models_of_others,
        models_without_end,
        models_unicode,
        models_deep,
        status_deep,
        yaml_alias_bomb,
        yaml_deep,
        yaml_huge,
        h2_settings_flood,
        h2_ping_flood,
        h2_reset_flood,
        h2_continuation_flood,
        h2_empty_data_flood,
        h2_huge_message,
        h2_stream_without_end,
        h2_silent,
        protobuf_of_empty_messages,
        protobuf_deep,
        protobuf_yaml_alias_bomb,
    )
}


def _serve(program: Program, name: str, connection: socket.socket) -> None:
    talk = Talk(connection)
    with connection, suppress(OSError, ValueError):
        if name.startswith(("h2", "protobuf")):
            program(talk)
        while talk.read_request():
            program(talk)


def _end_with_stdin() -> None:
    """Exit when whoever started this process has closed its end of the pipe, or has died."""
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description="A model server that attacks who asks it.")
    parser.add_argument("name", choices=PROGRAMS)
    parser.add_argument("--host", default="")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--end-with-stdin", action="store_true")
    given = parser.parse_args()
    if given.end_with_stdin:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    with socket.create_server((given.host, given.port), backlog=1024) as server:
        print(server.getsockname()[1], flush=True)  # noqa: T201 - the port that was found free
        while True:
            connection, _ = server.accept()
            work = (PROGRAMS[given.name], given.name, connection)
            threading.Thread(target=_serve, args=work, daemon=True).start()


if __name__ == "__main__":
    main()
