"""Decoding time of compressed bodies, protobuf messages and HTTP bytes is linear in their size."""

import gzip
import json
import struct
import zlib

import pytest

from moorage_runtime.codec._generated import grps_pb2, oip_pb2
from moorage_runtime.codec.arrays import binary_data
from moorage_runtime.codec.grps import proto as grps_proto
from moorage_runtime.codec.oip import path as oip_path
from moorage_runtime.codec.oip import proto as oip_proto
from moorage_runtime.codec.oip import request as oip_request
from moorage_runtime.codec.tfs import path as tfs_path
from moorage_runtime.codec.unpack.inflate import inflate
from moorage_runtime.frontends.grpc.nghttp2 import head
from moorage_runtime.frontends.grpc.nghttp2.framing import MessageReader
from moorage_runtime.frontends.http import encoding
from moorage_runtime.frontends.http.limits import Limits
from moorage_runtime.frontends.http.reader import RequestReader
from moorage_runtime.values.errors import RuntimeFault
from moorage_runtime.values.tensors import Datatype
from support.attack import check_linear

pytestmark = pytest.mark.attack

KIB = 1024
LIMIT = 64 * KIB * KIB


def block(tag, content):
    size, head = len(content), bytes([tag])
    while size > 0x7F:
        head += bytes([size & 0x7F | 0x80])
        size >>= 7
    return head + bytes([size]) + content


GZIP = {
    "empty members": lambda n: gzip.compress(b"") * (n // 20),
    "members of a byte": lambda n: gzip.compress(b"a") * (n // 21),
    "zeros": lambda n: gzip.compress(bytes(n * 8)),
    "noise": lambda n: gzip.compress(struct.pack(f"{n // 8}Q", *range(n // 8)), 0),
    "empty blocks": lambda n: b"\x1f\x8b\x08" + bytes(7) + b"\x00\x00\x00\xff\xff" * (n // 5),
    "a long name": lambda n: b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * n,
    "rubbish at the end": lambda n: gzip.compress(b"") + b"x" * n,
}
PROTO = {
    "empty inputs": lambda n: b"\x2a\x00" * (n // 2),
    "inputs with empty contents": lambda n: b"\x2a\x02\x2a\x00" * (n // 4),
    "empty raw tensors": lambda n: b"\x3a\x00" * (n // 2),
    "empty parameters": lambda n: b"\x22\x00" * (n // 2),
    "unknown fields": lambda n: b"\x78\x01" * (n // 2),
    "unknown strings": lambda n: b"\x7a\x00" * (n // 2),
    "the name again and again": lambda n: b"\x0a\x01m" * (n // 3),
    "padded tags": lambda n: b"\xaa\x80\x80\x00\x00" * (n // 5),
    "padded sizes": lambda n: b"\x2a\x80\x80\x00" * (n // 4),
    "groups": lambda n: b"\x7b" * n,
    "one contents of empty strings": lambda n: block(0x2A, block(0x2A, b"\x42\x00" * (n // 2))),
    "one contents of ints": lambda n: block(0x2A, block(0x2A, b"\x10\x01" * (n // 2))),
    "one contents of packed ints": lambda n: block(0x2A, block(0x2A, block(0x12, b"\x01" * n))),
    "one shape": lambda n: block(0x2A, b"\x12\x01x" + block(0x1A, b"\x01" * n)),
    "a broken end": lambda n: b"\x2a\x00" * (n // 2) + b"\x2a\x7f",
    "contents in contents": lambda n: block(0x2A, b"\x2a\x00" * (n // 2)),
}


@pytest.mark.parametrize("name", GZIP)
def test_decoding_time_is_linear_in_a_compressed_body(name):
    check_linear(
        name, lambda n: GZIP[name](n * 256 * KIB), lambda body: inflate(body, "gzip", LIMIT)
    )


def test_decoding_time_is_linear_in_a_deflated_body():
    check_linear(
        "zeros",
        lambda n: zlib.compress(bytes(n * 2_000_000)),
        lambda body: inflate(body, "deflate", LIMIT),
    )


@pytest.mark.parametrize("name", PROTO)
@pytest.mark.parametrize("size", [24 * KIB, 250 * KIB])
def test_decoding_time_is_linear_in_a_request_message(name, size):
    check_linear(name, lambda n: b"\n\x01m" + PROTO[name](n * size), oip_proto.decode_infer)


@pytest.mark.parametrize("field", ["tensors", "strings", "map"])
def test_decoding_time_is_linear_in_a_grps_message(field):
    def make(scale):
        message = grps_pb2.GrpsMessage()
        for index in range(3000 * scale):
            if field == "tensors":
                message.gtensors.tensors.add(name="x", dtype=1)
            elif field == "map":
                message.gmap.s_s[str(index)] = "x"
        if field == "strings":
            message.gtensors.tensors.add(dtype=9).flat_string.extend(["a"] * 100_000 * scale)
        return message.SerializeToString()

    check_linear(field, make, lambda data: grps_proto.decode(grps_proto.parse(data)))


@pytest.mark.parametrize("element", [b"", b"a", b"a" * 100])
def test_decoding_time_is_linear_in_a_tensor_of_strings(element):
    part = struct.pack("<I", len(element)) + element

    check_linear(
        "strings",
        lambda n: part * (n * 60_000),
        lambda data: binary_data.decode_array(
            memoryview(data), Datatype.BYTES, (len(data) // len(part),), "x"
        ),
    )


def test_decoding_time_is_linear_in_the_binary_inputs():
    item = '{"name":"x","datatype":"INT8","shape":[1],"parameters":{"binary_data_size":1}}'

    def make(scale):
        count = 3000 * scale
        text = f'{{"inputs":[{",".join([item] * count)}]}}'.encode()
        return text + bytes(count), len(text)

    check_linear("inputs", make, lambda made: oip_request.decode(made[0], made[1], "m", ""))


HTTP = {
    "one request line": lambda n: b"GET /" + b"a" * n,
    "one header name": lambda n: b"GET / HTTP/1.1\r\n" + b"a" * n,
    "one header value": lambda n: b"GET / HTTP/1.1\r\nHost: " + b"a" * n,
    "blanks in a header": lambda n: b"GET / HTTP/1.1\r\nHost:" + b" " * n,
    "headers": lambda n: b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * (n // 6),
    "one header again and again": lambda n: (
        b"GET / HTTP/1.1\r\n" + b"Accept-Encoding: gzip\r\n" * (n // 23)
    ),
    "empty lines": lambda n: b"\r\n" * (n // 2),
    "pipelined requests": lambda n: b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * (n // 27),
    "pipelined upgrades": lambda n: (
        b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n" * (n // 67)
    ),
    "pipelined upgrades with bodies": lambda n: (
        b"POST / HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n"
        b"Content-Length: 1\r\n\r\nx" * (n // 87)
    ),
    "chunks of a byte": lambda n: (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"1\r\nx\r\n" * (n // 6)
    ),
    "chunk extensions": lambda n: (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"1;a=b\r\nx\r\n" * (n // 10)
    ),
    "trailers": lambda n: (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
        + b"a: b\r\n" * (n // 6)
    ),
}


def read_http(step):
    def read(data):
        reader = RequestReader(Limits())
        view = memoryview(data)
        for start in range(0, len(data), step):
            part = view[start : start + step]
            while reader.direct is not None and part:
                count = min(len(reader.direct), len(part))
                reader.direct[:count] = part[:count]
                reader.filled(count)
                part = part[count:]
            reader.feed(part)

    return read


@pytest.mark.parametrize("step", [100, 64 * KIB])
@pytest.mark.parametrize("name", HTTP)
def test_decoding_time_is_linear_in_the_http_bytes(name, step):
    check_linear(name, lambda n: HTTP[name](n * 64 * KIB), read_http(step))


@pytest.mark.parametrize("step", [1, 5, 16 * KIB])
def test_decoding_time_is_linear_in_the_grpc_messages(step):
    def read(data):
        reader = MessageReader(LIMIT)
        for start in range(0, len(data), step):
            reader.feed(data[start : start + step])

    check_linear("empty messages", lambda n: b"\0\0\0\0\0" * (n * 20_000 * min(step, 5)), read)
    check_linear("one message", lambda n: b"\0\0\x40\0\0" + bytes(n * 50_000 * min(step, 5)), read)


PATHS = {
    "segments": lambda n: "/v2/models" + "/a" * (n // 2),
    "escapes": lambda n: "/v2/models/" + "%41" * (n // 3),
    "broken escapes": lambda n: "/v2/models/" + "%" * n,
    "digits": lambda n: "/v1/models/m/versions/" + "1" * n,
    "colons": lambda n: "/v1/models/m" + ":" * n,
    "slashes": lambda n: "/v2/models/" + "/" * n,
}


def find_target(path):
    for parse in (oip_path.parse, lambda path: tfs_path.parse_target("POST", path)):
        try:
            parse(path)
        except RuntimeFault:
            continue


@pytest.mark.parametrize("name", PATHS)
def test_decoding_time_is_linear_in_the_path(name):
    check_linear(name, lambda n: PATHS[name](n * 100_000), find_target)


@pytest.mark.parametrize("text", ["gzip,", ",", "a;q=0.", "gzip;q=0;", " "])
def test_decoding_time_is_linear_in_the_accepted_codings(text):
    check_linear(text, lambda n: text * (n * 20_000), encoding.choose)


@pytest.mark.parametrize("name", ["grpc-timeout", "grpc-encoding", "content-type"])
def test_decoding_time_is_linear_in_a_call_header(name):
    fields = {b":method": b"POST", b"content-type": b"application/grpc"}

    def parse(value):
        head.parse_head({**fields, name.encode(): value})

    check_linear(name, lambda n: b"1" * (n * 1_000_000), parse)


def test_decoding_time_is_linear_in_the_declared_json():
    check_linear(
        "digits",
        lambda n: json.dumps("1" * n * 100_000),
        lambda text: oip_request.parse_header_length(text, 10),
    )


def test_the_generated_classes_have_the_declared_fields():
    message = oip_pb2.ModelInferRequest.FromString(PROTO["one contents of ints"](100))

    assert len(message.inputs[0].contents.int_contents) == 50
