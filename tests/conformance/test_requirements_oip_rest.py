"""Open Inference Protocol over HTTP, requirement by requirement, on a running server.

Covers what the wire vectors do not: refusals, datatypes, parameters, versions, the binary forms.
"""

import gzip
import json
import math
import uuid

import httpx
import numpy as np
import pytest

from support.odd_models import request, tensor

pytestmark = pytest.mark.conformance

IDENTITY = "/v2/models/identity_fp32/infer"
INTS = "/v2/models/identity_2d_int32/infer"
TEXTS = "/v2/models/identity_bytes/infer"
ECHO = "/v2/models/your_model/infer"
MYMODEL = "/v2/models/mymodel/infer"
LENGTH = "Inference-Header-Content-Length"
ONE = tensor("x", "FP32", [1], [1.0])
NUMBERS = {
    "UINT8": (0, 2**8 - 1),
    "UINT16": (0, 2**16 - 1),
    "UINT32": (0, 2**32 - 1),
    "UINT64": (0, 2**64 - 1),
    "INT8": (-(2**7), 2**7 - 1),
    "INT16": (-(2**15), 2**15 - 1),
    "INT32": (-(2**31), 2**31 - 1),
    "INT64": (-(2**63), 2**63 - 1),
}
WIRE = {
    "BOOL": "?",
    "UINT8": "u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "INT8": "i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
    # numpy has no such type; only the bytes matter
    "BF16": "<u2",
}


def post(server, path: str, body: bytes, **headers: str) -> httpx.Response:
    return httpx.post(f"http://{server.http}{path}", content=body, headers=headers, timeout=30)


def binary(server, path: str, header: dict, *parts: bytes) -> httpx.Response:
    """A request with binary parts after its JSON."""
    text = json.dumps(header).encode()
    return post(server, path, text + b"".join(parts), **{LENGTH: str(len(text))})


def refused(answer: httpx.Response, status: int = 400) -> str:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].split(";")[0] == "application/json"
    assert LENGTH.lower() not in answer.headers
    body = answer.json()
    assert set(body) == {"error"}
    assert body["error"]
    return body["error"]


def data(answer: httpx.Response) -> list:
    assert answer.status_code == 200, answer.text
    return json.loads(answer.content)["outputs"][0]["data"]


def split(answer: httpx.Response) -> tuple[dict, bytes]:
    """The JSON of a binary response, and the bytes after it."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/octet-stream"
    length = int(answer.headers[LENGTH])
    assert int(answer.headers["content-length"]) == len(answer.content)
    return json.loads(answer.content[:length]), answer.content[length:]


# --- endpoints, health and metadata


@pytest.mark.parametrize(
    "path", ["/v2/model/my_model", "/v2/models", "/v2/models/", "/v2/models/my_model/versions"]
)
def test_other_paths_are_not_found(server, path):
    refused(httpx.get(f"http://{server.http}{path}"), 404)


def test_the_root_path_may_end_with_a_slash(server):
    url = f"http://{server.http}/v2"

    assert httpx.get(f"{url}/").json() == httpx.get(url).json()


@pytest.mark.parametrize("path", ["", "/ready", "/infer"])
@pytest.mark.parametrize("model", ["nosuch", "my_model/versions/v11", "my_model/versions/10"])
def test_an_unknown_model_or_version_is_not_found_everywhere(server, model, path):
    url = f"http://{server.http}/v2/models/{model}{path}"
    answer = httpx.post(url, content=request(ONE)) if path == "/infer" else httpx.get(url)

    assert model.partition("/")[0] in refused(answer, 404)


@pytest.mark.parametrize("path", ["/v2/health/live", "/v2/health/ready", "/v2/models/strs/ready"])
def test_health_ignores_a_body_and_needs_no_header(server, path):
    answer = httpx.request("GET", f"http://{server.http}{path}", content=b"\xff not json")

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"


def test_a_loading_model_affects_readiness_but_not_liveness(server_of):
    url = f"http://{server_of('loading').http}/v2"

    assert httpx.get(f"{url}/health/live").json() == {"live": True}
    ready = httpx.get(f"{url}/health/ready")
    assert (ready.status_code, ready.json()) == (503, {"live": False, "ready": False})
    assert httpx.get(f"{url}/models/my_model/ready").status_code == 200
    assert httpx.get(f"{url}/models/loading/ready").status_code == 503
    refused(httpx.get(f"{url}/models/loading"), 503)
    busy = httpx.post(f"{url}/models/loading/infer", content=request(ONE))
    refused(busy, 503)
    assert busy.headers["retry-after"] == "1"


def test_server_metadata_has_three_members(server):
    body = httpx.get(f"http://{server.http}/v2").json()

    assert body["extensions"] == ["binary_tensor_data"]
    assert {name: type(value) for name, value in body.items()} == {
        "name": str,
        "version": str,
        "extensions": list,
    }


def test_model_metadata_has_platform_tensors_and_versions(odd, server):
    of_one = httpx.get(f"http://{server.http}/v2/models/two_out").json()
    assert of_one == {
        "name": "two_out",
        "versions": ["1"],
        "platform": "onnx_onnxv1",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1]}],
        "outputs": [
            {"name": "a", "datatype": "FP32", "shape": [-1]},
            {"name": "b", "datatype": "INT64", "shape": [1]},
        ],
    }
    assert odd.get("/v2/models/versions").json()["versions"] == ["9", "10"]
    assert odd.get("/v2/models/versions/versions/9").json()["versions"] == ["9"]
    assert odd.get("/v2/models/versions").json()["platform"] == "python_callable"


# --- inference requests


@pytest.mark.parametrize(
    "dims",
    [[-1], [1.0], [1.5], ["1"], [True], [None], [[1]], 1, None, "1", {}, [2**64], [-(2**63)]],
)
def test_a_dimension_is_an_integer_from_zero_to_2_64(server, dims):
    assert "shape" in refused(post(server, IDENTITY, request({**ONE, "shape": dims})))


@pytest.mark.parametrize(
    "dims",
    [
        [2**32, 2**32],
        [2**63, 2],
        [2**64 - 1],
        [2**62, 4, 0],
        [1] * 10_000,
        [2**64 - 1] * 100,
    ],
)
def test_an_enormous_shape_is_refused_immediately(server, dims):
    refused(post(server, ECHO, request({**ONE, "shape": dims})))


@pytest.mark.parametrize("datatype", ["fp32", "FLOAT", "TYPE_FP32", "STRING", "", 32, None])
def test_an_unknown_datatype_is_refused(server, datatype):
    assert "datatype" in refused(post(server, IDENTITY, request({**ONE, "datatype": datatype})))


@pytest.mark.parametrize("missing", ["name", "shape", "datatype", "data"])
def test_an_input_requires_all_members(server, missing):
    left = {name: value for name, value in ONE.items() if name != missing}

    assert missing in refused(post(server, IDENTITY, request(left)))


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"inputs": None},
        {"inputs": {}},
        {"inputs": "x"},
        {"inputs": [1]},
        {"inputs": [None]},
        {"inputs": []},
        {"inputs": [{**ONE, "name": 1}]},
        {"inputs": [{**ONE, "name": ""}]},
        {"inputs": [{**ONE, "parameters": []}]},
        {"inputs": [{**ONE, "parameters": {"a": None}}]},
        {"inputs": [{**ONE, "parameters": {"a": [1]}}]},
        {"inputs": [{**ONE, "parameters": {"a": {}}}]},
        {"inputs": [ONE], "parameters": "x"},
        {"inputs": [ONE], "parameters": {"a": None}},
        {"inputs": [ONE], "parameters": {"a": {"b": 1}}},
        {"inputs": [ONE], "id": 1},
        {"inputs": [ONE], "id": ["a"]},
        {"inputs": [ONE], "outputs": {}},
        {"inputs": [ONE], "outputs": [1]},
        {"inputs": [ONE], "outputs": [{}]},
        {"inputs": [ONE], "outputs": [{"name": 5}]},
        {"inputs": [ONE], "outputs": [{"name": "z"}]},
        {"inputs": [ONE], "outputs": [{"name": "y"}, {"name": "y"}]},
        {"inputs": [ONE], "outputs": [{"name": "y", "parameters": {"a": None}}]},
        {"inputs": [ONE, ONE]},
        {"inputs": [ONE, {**ONE, "name": "z"}]},
        {"inputs": [{**ONE, "name": "z"}]},
        {"inputs": [tensor("x", "FP64", [1], [1.0])]},
        {"inputs": [tensor("x", "FP32", [1, 1], [1.0])]},
        {"inputs": [tensor("x", "FP32", [], [1.0])]},
        {"inputs": [{**ONE, "data": 1.0}]},
        {"inputs": [{**ONE, "data": None}]},
        {"inputs": [{**ONE, "data": "1.0"}]},
        {"inputs": [{**ONE, "data": {"0": 1.0}}]},
        {"inputs": [{**ONE, "data": []}]},
        {"inputs": [{**ONE, "data": [1.0, 2.0]}]},
        {"inputs": [{**ONE, "data": [[], 1.0, []], "shape": [2]}]},
    ],
    ids=json.dumps,
)
def test_a_malformed_or_unsuitable_request_is_refused(server, body):
    refused(post(server, IDENTITY, json.dumps(body).encode()))


def test_all_inputs_are_required_in_any_order(server):
    numbers = tensor("input0", "UINT32", [2, 2], [1, 2, 3, 4])
    flags = tensor("input1", "BOOL", [3], [True, False, True])

    assert post(server, MYMODEL, request(flags, numbers)).status_code == 200
    assert "input1" in refused(post(server, MYMODEL, request(numbers)))


@pytest.mark.parametrize("shape", [[2, 3], [3, 2], [1, 4], [4]])
def test_a_fixed_dimension_must_match(server, shape):
    numbers = tensor("input0", "UINT32", shape, [0] * math.prod(shape))
    flags = tensor("input1", "BOOL", [3], [True] * 3)

    assert "input0" in refused(post(server, MYMODEL, request(numbers, flags)))


def test_only_requested_outputs_are_returned_in_the_requested_order(server):
    def names(**members) -> list[str]:
        answer = post(server, "/v2/models/two_out/infer", request(ONE, **members))
        return [output["name"] for output in answer.json()["outputs"]]

    assert names() == names(outputs=[]) == ["a", "b"]
    assert names(outputs=[{"name": "b"}, {"name": "a"}]) == ["b", "a"]
    assert names(outputs=[{"name": "b"}]) == ["b"]


def test_an_id_is_returned_or_generated(server):
    def answered(**members) -> str:
        return post(server, IDENTITY, request(ONE, **members)).json()["id"]

    assert answered(id="a b/ü") == "a b/ü"
    assert answered(id="") == ""
    assert uuid.UUID(answered()).version == 4
    assert uuid.UUID(answered(id=None)).version == 4


def test_parameters_reach_the_model_and_unknown_members_are_ignored(odd):
    parameters = {"word": "a", "whole": 3, "part": 0.5, "flag": True}
    body = request(ONE, parameters=parameters, model_name="other", extra=[{}])

    answer = post(odd, "/v2/models/parameters/infer", body)

    assert json.loads(data(answer)[0]) == parameters
    assert answer.json()["model_name"] == "parameters"


# --- tensor data as JSON


@pytest.mark.parametrize("nested", [[1, 2, 3, 4], [[1, 2], [3, 4]], [[[1], [2]], [[3, 4]]]])
def test_data_is_read_in_row_major_order_with_any_nesting(server, nested):
    answer = post(server, INTS, request(tensor("x", "INT32", [2, 2], nested)))

    assert data(answer) == [1, 2, 3, 4]
    assert answer.json()["outputs"][0]["shape"] == [2, 2]


@pytest.mark.parametrize(
    ("datatype", "given", "expected"),
    [
        ("BOOL", [True, False, 1, 0], [True, False, True, False]),
        ("INT8", [1.0, -2.0, 1e2], [1, -2, 100]),
        ("UINT64", [2**64 - 1, 2**53 + 1], [2**64 - 1, 2**53 + 1]),
        ("INT64", [-(2**63), 2**53 + 1], [-(2**63), 2**53 + 1]),
        ("FP16", [1, 0.1, 1e6], [1.0, 0.0999755859375, math.inf]),
        ("FP32", [1, 1.1, 1e39, -1e39], [1.0, 1.1, math.inf, -math.inf]),
        ("FP64", [0.1, 1e308, 5e-324], [0.1, 1e308, 5e-324]),
        ("BYTES", ["", "é", "\U0001f600", "\x00"], ["", "é", "\U0001f600", "\x00"]),
    ],
)
def test_elements_of_every_datatype_round_trip(server, datatype, given, expected):
    body = request(tensor("x", datatype, [len(given)], given))

    got = data(post(server, ECHO, body))

    assert got == expected
    assert [type(value) for value in got] == [type(value) for value in expected]


@pytest.mark.parametrize(
    ("datatype", "element"),
    [
        *[(name, low - 1) for name, (low, _) in NUMBERS.items()],
        *[(name, high + 1) for name, (_, high) in NUMBERS.items()],
        *[(name, 0.5) for name in NUMBERS],
        *[(name, True) for name in (*NUMBERS, "FP16", "FP32", "FP64", "BYTES")],
        *[(name, "1") for name in (*NUMBERS, "FP16", "FP32", "FP64", "BOOL")],
        *[(name, None) for name in (*NUMBERS, "FP32", "BOOL", "BYTES")],
        *[(name, {}) for name in (*NUMBERS, "FP32", "BOOL", "BYTES")],
        ("INT64", math.nan),
        ("INT32", math.inf),
        ("BOOL", 2),
        ("BOOL", -1),
        ("BYTES", 1),
        ("BYTES", 1.5),
        ("BYTES", "\ud800"),
        ("BF16", 1.0),
    ],
)
def test_an_element_outside_the_range_of_its_datatype_is_refused(server, datatype, element):
    refused(post(server, ECHO, request(tensor("x", datatype, [1], [element]))))


@pytest.mark.parametrize("datatype", [*NUMBERS, "BOOL", "FP16", "FP32", "FP64", "BYTES"])
@pytest.mark.parametrize("shape", [[0], [0, 3], [2, 0]])
def test_an_empty_tensor_is_legal(server, datatype, shape):
    answer = post(server, ECHO, request(tensor("x", datatype, shape, [])))

    assert answer.json()["outputs"] == [tensor("x", datatype, shape, [])]


def test_a_scalar_is_a_list_of_one(server):
    answer = post(server, ECHO, request(tensor("x", "FP32", [], [1.5])))

    assert answer.json()["outputs"] == [tensor("x", "FP32", [], [1.5])]
    refused(post(server, ECHO, request({**tensor("x", "FP32", [], []), "data": 1.5})))


def test_text_that_is_not_utf8_must_be_requested_as_binary(odd):
    body = json.loads(request(ONE))

    assert "binary" in refused(
        post(odd, "/v2/models/undecodable/infer", json.dumps(body).encode())
    )
    body["parameters"] = {"binary_data_output": True}
    _, part = split(post(odd, "/v2/models/undecodable/infer", json.dumps(body).encode()))
    assert part == b"\x02\x00\x00\x00\xff\x00"


def test_bf16_requires_binary_data(odd):
    path = "/v2/models/half_types/infer"
    header = {"name": "x", "shape": [2], "datatype": "BF16", "parameters": {"binary_data_size": 4}}
    asked = {"inputs": [header], "parameters": {"binary_data_output": True}}

    _, part = split(binary(odd, path, asked, b"\x80\x3f\x00\x40"))

    assert part == b"\x80\x3f\x00\x40"
    assert "binary" in refused(binary(odd, path, {"inputs": [header]}, b"\x80\x3f\x00\x40"))
    assert "binary" in refused(post(odd, path, request(tensor("x", "BF16", [1], [1.0]))))


# --- binary tensor data


@pytest.mark.parametrize("datatype", WIRE)
def test_every_datatype_is_sent_as_little_endian_bytes(server, datatype):
    part = np.array([0, 1], WIRE[datatype]).tobytes()
    header = {
        "name": "x",
        "shape": [2, 1],
        "datatype": datatype,
        "parameters": {"binary_data_size": len(part)},
    }

    body, got = split(
        binary(
            server, ECHO, {"inputs": [header], "parameters": {"binary_data_output": True}}, part
        )
    )

    assert got == part
    assert body["outputs"] == [header]
    assert body["model_name"] == "your_model"
    assert body["model_version"] == "1.0.0"
    assert body["id"]


@pytest.mark.parametrize(
    ("everything", "listed", "binary_outputs"),
    [
        (None, None, []),
        (True, None, ["a", "b"]),
        (False, None, []),
        (None, {"a": True, "b": None}, ["a"]),
        (True, {"a": None, "b": False}, ["a"]),
        (False, {"b": True, "a": None}, ["b"]),
        (True, {"b": True, "a": True}, ["b", "a"]),
    ],
)
def test_only_requested_outputs_are_binary(server, everything, listed, binary_outputs):
    members: dict = (
        {} if everything is None else {"parameters": {"binary_data_output": everything}}
    )
    if listed is not None:
        members["outputs"] = [
            {"name": name, **({} if way is None else {"parameters": {"binary_data": way}})}
            for name, way in listed.items()
        ]

    answer = post(server, "/v2/models/two_out/infer", request(ONE, **members))

    if not binary_outputs:
        assert answer.headers["content-type"] == "application/json"
        assert LENGTH not in answer.headers
        return
    body, part = split(answer)
    sizes = {"a": 4, "b": 8}
    for output in body["outputs"]:
        if output["name"] in binary_outputs:
            assert "data" not in output
            assert output["parameters"]["binary_data_size"] == sizes[output["name"]]
        else:
            assert "data" in output
    parts = {"a": np.float32([1.0]).tobytes(), "b": np.int64([1]).tobytes()}
    assert part == b"".join(parts[name] for name in binary_outputs)


@pytest.mark.parametrize("size", [-1, True, 3.5, "4", None, 2**63, 3, 5, 8])
def test_a_binary_size_must_match_the_shape(server, size):
    header = {"name": "x", "shape": [1], "datatype": "FP32"}
    header["parameters"] = {"binary_data_size": size}

    refused(binary(server, IDENTITY, {"inputs": [header]}, b"\x00" * 4))


@pytest.mark.parametrize("way", [1, 0, "true", None, []])
def test_binary_data_must_be_a_boolean(server, way):
    refused(post(server, IDENTITY, request(ONE, parameters={"binary_data_output": way})))
    named = [{"name": "y", "parameters": {"binary_data": way}}]
    refused(post(server, IDENTITY, request(ONE, outputs=named)))


@pytest.mark.parametrize("length", ["-1", "x", "1.5", "+1", "", "1e2", "2147483648", "9" * 40])
def test_a_header_length_must_be_a_number_within_the_body(server, length):
    assert LENGTH in refused(post(server, IDENTITY, request(ONE), **{LENGTH: length}))


def test_a_header_length_of_the_whole_body_is_plain_json(server):
    body = request(ONE)

    assert data(post(server, IDENTITY, body, **{LENGTH: str(len(body))})) == [1.0]
    assert data(post(server, IDENTITY, body, **{LENGTH.lower(): str(len(body))})) == [1.0]


def test_bytes_after_json_without_binary_inputs_are_refused(server):
    refused(binary(server, IDENTITY, {"inputs": [ONE]}, b"\x00"))


def test_data_and_a_binary_size_are_mutually_exclusive(server):
    both = {**ONE, "parameters": {"binary_data_size": 4}}

    refused(binary(server, IDENTITY, {"inputs": [both]}, b"\x00" * 4))


@pytest.mark.parametrize(
    ("shape", "part"),
    [
        ([1], b"\x05\x00\x00\x00abc"),
        ([1], b"\x01\x00\x00"),
        ([2], b"\x01\x00\x00\x00a"),
        ([1], b"\x01\x00\x00\x00a\x01\x00\x00\x00b"),
        ([1], b"\x01\x00\x00\x00ab"),
        ([1], b"\xff\xff\xff\xffa"),
        ([1], b""),
    ],
)
def test_lengths_of_bytes_elements_must_add_up(server, shape, part):
    header = {"name": "x", "shape": shape, "datatype": "BYTES"}
    header["parameters"] = {"binary_data_size": len(part)}

    refused(binary(server, TEXTS, {"inputs": [header]}, part))


def test_lengths_refer_to_the_decompressed_body(server):
    part = np.float32([1.5]).tobytes()
    header = {"name": "x", "shape": [1], "datatype": "FP32", "parameters": {"binary_data_size": 4}}
    text = json.dumps({"inputs": [header]}).encode()
    answer = post(
        server,
        IDENTITY,
        gzip.compress(text + part),
        **{LENGTH: str(len(text)), "Content-Encoding": "gzip"},
    )

    assert data(answer) == [1.5]


# --- raw binary requests


def raw(server, model: str, body: bytes) -> httpx.Response:
    return post(server, f"/v2/models/{model}/infer", body, **{LENGTH: "0"})


@pytest.mark.parametrize("path", ["identity_fp32", "identity_fp32/versions/1"])
def test_a_raw_body_is_the_data_of_the_single_input(server, path):
    body, part = split(raw(server, path, np.float32([1, 2, 3]).tobytes()))

    assert part == np.float32([1, 2, 3]).tobytes()
    assert body["outputs"][0]["shape"] == [3]
    assert uuid.UUID(body["id"]).version == 4


def test_a_raw_body_may_be_chunked(server):
    parts = (np.float32([value]).tobytes() for value in (1, 2))
    url = f"http://{server.http}{IDENTITY}"

    _, part = split(httpx.post(url, content=parts, headers={LENGTH: "0"}))

    assert part == np.float32([1, 2]).tobytes()


def test_a_raw_text_body_is_one_element(server):
    _, part = split(raw(server, "identity_bytes1", b"\x00\xffabc"))
    assert part == b"\x05\x00\x00\x00\x00\xffabc"
    _, part = split(raw(server, "identity_bytes1", b""))
    assert part == b"\x00\x00\x00\x00"


def test_a_raw_body_without_bytes_is_an_empty_tensor(server):
    body, part = split(raw(server, "identity_fp32", b""))

    assert part == b""
    assert body["outputs"][0]["shape"] == [0]
    assert body["outputs"][0]["parameters"] == {"binary_data_size": 0}


def test_a_raw_request_to_a_batching_model_is_a_batch_of_one(odd):
    body, part = split(raw(odd, "raw", np.float32(range(6)).tobytes()))

    assert body["outputs"][0]["shape"] == [1, 2, 3]
    assert part == np.float32(range(6)).tobytes()


@pytest.mark.parametrize(
    ("model", "body"),
    [
        ("mymodel", b"\x00" * 19),
        ("identity_2d_int32", b"\x00" * 16),
        ("identity_fp32", b"\x00" * 5),
        ("my_model", b"\x00" * 20),
        ("my_model", b"\x00" * 32),
    ],
    ids=["two inputs", "two variable", "a part of one", "not the fixed size", "two of a batch"],
)
def test_a_raw_body_that_the_model_does_not_allow_is_refused(server, model, body):
    refused(raw(server, model, body))


def test_a_raw_body_for_two_variable_dimensions_is_refused(odd):
    refused(raw(odd, "raw_two_variable", b"\x00" * 16))
