"""GRPS over HTTP and gRPC, requirement by requirement, on a running server."""

import json
import math
import socket

import grpc
import httpx
import pytest
import yaml

from moorage_runtime.codec._generated import grps_pb2
from support import odd_models
from support.runtime import running, serving
from support.waiting import eventually

pytestmark = pytest.mark.conformance

OK = {"code": 200, "msg": "OK", "status": "SUCCESS"}
SERVICE = "/grps.protos.v1.GrpsService/"
ONLINE = ("health/online", "health/offline", "health/live", "health/ready", "metadata/server")


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A separate server, which tests may take offline."""
    with serving(
        odd_models.write(tmp_path_factory.mktemp("own")), "--grps-traffic-control=true"
    ) as runtime:
        yield runtime


def url(server, path: str) -> str:
    return f"http://{server.http}/grps/v1/{path}"


def predict(server, body: object, query: str = "", **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Content-Type": "application/json", **headers}
    return httpx.post(url(server, f"infer/predict{query}"), content=content, headers=given)


def answered(answer: httpx.Response) -> dict:
    """The message of a success, without its status."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].split(";")[0] == "application/json"
    body = answer.json()
    assert body.pop("status") == OK
    return body


def refused(answer: httpx.Response, status: int = 400) -> str:
    assert answer.status_code == status, answer.text
    body = answer.json()["status"]
    assert (body["code"], body["status"]) == (status, "FAILURE")
    assert body["msg"]
    return body["msg"]


def call(server, method: str, **fields):
    message = grps_pb2.GrpsMessage(**fields).SerializeToString()
    with grpc.insecure_channel(server.grpc) as channel:
        return grps_pb2.GrpsMessage.FromString(
            channel.unary_unary(SERVICE + method)(message, timeout=10)
        )


def tensors(*items: dict) -> dict:
    return {"gtensors": {"tensors": list(items)}}


# --- health and metadata


@pytest.mark.parametrize("path", ONLINE)
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("body", [b"", b"{}", b"\xff"])
def test_the_simple_paths_accept_get_and_post_and_ignore_a_body(own, path, method, body):
    httpx.get(url(own, "health/online"))
    answer = httpx.request(method, url(own, path), content=body)
    httpx.get(url(own, "health/online"))

    assert answer.status_code == 200
    assert answer.json()["status"] == OK


def test_all_protocols_share_the_online_flag(own):
    ready = "/v2/health/ready"
    overall = "/grpc.health.v1.Health/Check"
    for _ in range(2):
        assert answered(httpx.get(url(own, "health/offline"))) == {}
    try:
        assert httpx.get(url(own, "health/ready")).status_code == 503
        assert refused(httpx.get(url(own, "health/ready")), 503)
        assert answered(httpx.get(url(own, "health/live"))) == {}
        assert call(own, "CheckReadiness").status.code == 503
        assert call(own, "CheckReadiness").status.status == grps_pb2.Status.FAILURE
        assert call(own, "CheckLiveness").status.status == grps_pb2.Status.SUCCESS
        assert own.get(ready).status_code == 503
        with grpc.insecure_channel(own.grpc) as channel:
            assert channel.unary_unary(overall)(b"", timeout=10) == b"\x08\x02"
        assert own.get("/v2/health/live").status_code == 200
        assert own.get("/v2/models/echo/ready").status_code == 200
        assert "AVAILABLE" in own.get("/v1/models/echo").text
        assert answered(predict(own, {"str_data": "still"})) == {"str_data": "still"}
    finally:
        assert call(own, "Online").status.code == 200
    assert answered(httpx.get(url(own, "health/ready"))) == {}
    assert call(own, "Offline").status.code == 200
    assert own.get(ready).status_code == 503
    assert answered(httpx.get(url(own, "health/online"))) == {}
    assert call(own, "CheckReadiness").status.code == 200
    assert own.get(ready).status_code == 200


def test_a_server_may_start_offline():
    with running("--start-offline=true", "--grps-traffic-control=true") as runtime:
        eventually("live", lambda: runtime.get("/grps/v1/health/live").status_code, bool, 10)
        assert runtime.get("/grps/v1/health/ready").status_code == 503
        assert runtime.get("/grps/v1/health/online").status_code == 200
        ready = eventually(
            "ready",
            lambda: runtime.get("/grps/v1/health/ready").status_code,
            lambda status: status == 200,
            10,
        )
        assert ready == 200


def test_online_is_not_ready_while_a_model_loads(server_of):
    loading = server_of("loading")

    assert answered(httpx.get(url(loading, "health/live"))) == {}
    assert refused(httpx.get(url(loading, "health/ready")), 503)
    asked = {"str_data": "loading"}
    text = answered(httpx.post(url(loading, "metadata/model"), json=asked))["str_data"]
    assert yaml.safe_load(text)["ready"] is False
    assert refused(predict(loading, {"str_data": "a", "model": "loading"}), 503)


def test_server_metadata_is_safe_yaml_without_secrets(server):
    text = answered(httpx.get(url(server, "metadata/server")))["str_data"]
    document = yaml.safe_load(text)

    assert {"interface", "models", "dag", "version"} <= set(document)
    assert document["dag"]["nodes"][0]["model"] == "your_model"
    assert {"name": "my_model", "version": "v10", "ready": True} in document["models"]
    assert yaml.safe_load(yaml.safe_dump(document)) == document
    assert call(server, "ServerMetadata").str_data == text


@pytest.mark.parametrize("asked", ["two_out", "two_out-1"])
def test_model_metadata_is_safe_yaml_for_one_version(server, asked):
    answer = answered(httpx.post(url(server, "metadata/model"), json={"str_data": asked}))
    document = yaml.safe_load(answer["str_data"])

    assert (document["name"], document["version"], document["ready"]) == ("two_out", "1", True)
    assert document["inferer_type"] == "onnx_onnxv1"
    assert document["batching"] in (True, False)
    assert document["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1]}]
    assert [tensor["name"] for tensor in document["outputs"]] == ["a", "b"]
    assert call(server, "ModelMetadata", str_data=asked).str_data == answer["str_data"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"str_data": "nosuch"}, 404),
        ({"str_data": "two_out-9"}, 404),
        ({"str_data": ""}, 400),
        ({}, 400),
        ({"gmap": {}}, 400),
        ([], 400),
    ],
)
def test_metadata_of_an_unknown_or_missing_model_is_refused(server, body, status):
    assert refused(httpx.post(url(server, "metadata/model"), json=body), status)
    if isinstance(body, dict) and "gmap" not in body:
        answer = call(server, "ModelMetadata", **body)
        assert answer.status.code == status
        assert answer.status.status == grps_pb2.Status.FAILURE


@pytest.mark.parametrize("path", ["nosuch", "", "infer", "infer/nosuch", "health", "metadata/"])
def test_an_unknown_path_is_a_failed_message(server, path):
    assert refused(httpx.get(url(server, path)), 404)


# --- predict over HTTP


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON"])
def test_parameters_of_the_media_type_are_ignored(server, content_type):
    answer = predict(server, {"str_data": "a"}, **{"Content-Type": content_type})

    assert answered(answer) == {"str_data": "a"}


@pytest.mark.parametrize("content_type", ["text/plain", "", "application/x-www-form-urlencoded"])
def test_another_content_type_is_refused(server, content_type):
    assert refused(predict(server, {"str_data": "a"}, **{"Content-Type": content_type}))


def test_bytes_are_sent_without_an_envelope(server):
    everything = bytes(range(256))
    answer = predict(server, everything, **{"Content-Type": "application/octet-stream"})

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.content == everything


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"status": OK},
        {"bin_data": "YQ=="},
        {"str_data": "a", "gmap": {}},
        {"str_data": "a", "strData": "a"},
        tensors({"dtype": 7, "flat_float32": [1], "flatFloat32": [1]}),
        {"str_data": 1},
        {"str_data": None},
        {"model": 1, "str_data": "a"},
        {"gtensors": []},
        {"gtensors": {"tensors": {}}},
        tensors({"dtype": "DT_NOSUCH", "shape": [1]}),
        tensors({"dtype": 10, "shape": [1]}),
        tensors({"dtype": "DT_INVALID", "shape": [1]}),
        tensors({"shape": [1], "flat_float32": [1]}),
        tensors({"dtype": "DT_FLOAT32", "shape": [2], "flat_float32": [1]}),
        tensors({"dtype": "DT_FLOAT32", "shape": [1], "flat_float32": [1, 2]}),
        tensors({"dtype": "DT_FLOAT32", "shape": [1], "flat_int32": [1]}),
        tensors({"dtype": "DT_FLOAT32", "shape": [-1], "flat_float32": [1]}),
        tensors({"dtype": "DT_FLOAT32", "shape": [2**32], "flat_float32": [1]}),
        tensors({"dtype": "DT_FLOAT32", "shape": 1, "flat_float32": [1]}),
        tensors({"dtype": "DT_FLOAT32", "shape": [1], "flat_float32": 1}),
        tensors({"dtype": "DT_FLOAT32", "shape": [1], "flat_float32": ["x"]}),
        tensors({"dtype": "DT_UINT8", "shape": [1], "flat_uint8": [256]}),
        tensors({"dtype": "DT_UINT8", "shape": [1], "flat_uint8": [-1]}),
        tensors({"dtype": "DT_INT8", "shape": [1], "flat_int8": [128]}),
        tensors({"dtype": "DT_INT16", "shape": [1], "flat_int16": [2**15]}),
        tensors({"dtype": "DT_INT32", "shape": [1], "flat_int32": [2**31]}),
        tensors({"dtype": "DT_INT64", "shape": [1], "flat_int64": [str(2**63)]}),
        tensors({"dtype": "DT_FLOAT64", "shape": [1], "flat_double": [1], "flat_float64": [1]}),
        tensors(
            {"name": "a", "dtype": "DT_FLOAT32", "shape": [1], "flat_float32": [1]},
            {"dtype": "DT_FLOAT32", "shape": [1], "flat_float32": [1]},
        ),
        tensors(*[{"name": "a", "dtype": "DT_FLOAT32", "shape": [1], "flat_float32": [1]}] * 2),
        {"ndarray": [[1, 2], [3]]},
        {"ndarray": [[]]},
        {"ndarray": [[1], []]},
        {"ndarray": ["1"]},
        {"ndarray": [True]},
        {"ndarray": [None]},
        {"ndarray": {}},
        {"ndarray": "1"},
        {"gmap": []},
        {"gmap": {"s_b": {"a": "*"}}},
        {"gmap": {"s_b": {"a": 1}}},
        {"gmap": {"s_i32": {"a": 2**31}}},
        {"gmap": {"s_i32": {"a": 1.5}}},
        {"gmap": {"s_i64": {"a": str(2**63)}}},
        {"gmap": {"s_f": {"a": "x"}}},
        {"gmap": {"s_s": {"a": 1}}},
        {"gmap": {"s_s": []}},
    ],
    ids=repr,
)
def test_a_malformed_message_is_refused(server, body):
    assert refused(predict(server, body))


@pytest.mark.parametrize(
    ("sent", "got"),
    [
        ({"str_data": ""}, {"str_data": ""}),
        ({"strData": "é\x00"}, {"str_data": "é\x00"}),
        ({"str_data": "a", "extra": {"deep": [1]}}, {"str_data": "a"}),
        ({"gmap": {"s_t": {"x": 1}, "s_s": {"a": "b"}}}, {"gmap": {"s_s": {"a": "b"}}}),
        (
            {"gmap": {"s_i64": {"a": 5}, "s_b": {"b": "AP8="}, "s_d": {"c": 0.5}}},
            {"gmap": {"s_i64": {"a": "5"}, "s_b": {"b": "AP8="}, "s_d": {"c": 0.5}}},
        ),
        (
            tensors({"name": "a", "dtype": 7, "shape": [2], "flatFloat32": ["NaN", "-Infinity"]}),
            tensors(
                {
                    "name": "a",
                    "dtype": "DT_FLOAT32",
                    "shape": [2],
                    "flat_float32": ["NaN", "-Infinity"],
                }
            ),
        ),
        (
            tensors({"name": "a", "dtype": "DT_FLOAT64", "shape": [1], "flat_double": [0.1]}),
            tensors({"name": "a", "dtype": "DT_FLOAT64", "shape": [1], "flat_float64": [0.1]}),
        ),
        (
            tensors({"name": "a", "dtype": "DT_INT64", "shape": [2], "flat_int64": [1, "-2"]}),
            tensors({"name": "a", "dtype": "DT_INT64", "shape": [2], "flat_int64": ["1", "-2"]}),
        ),
        (
            tensors({"name": "a", "dtype": "DT_STRING", "flat_string": ["x"]}),
            tensors({"name": "a", "dtype": "DT_STRING", "flat_string": ["x"]}),
        ),
    ],
    ids=repr,
)
def test_the_response_repeats_the_form_of_the_request(server, sent, got):
    assert answered(predict(server, sent)) == got


@pytest.mark.parametrize("value", ["true", "True", "TRUE"])
def test_an_ndarray_is_returned_on_request(server, value):
    nested = {"ndarray": [[1, 2.5], [3, 4]]}

    assert answered(predict(server, nested, f"?return-ndarray={value}")) == {
        "ndarray": [[1.0, 2.5], [3.0, 4.0]]
    }
    flat = answered(predict(server, nested, "?return-ndarray=false"))["gtensors"]["tensors"][0]
    assert flat["shape"] == [2, 2]
    assert flat["flat_float32"] == [1.0, 2.5, 3.0, 4.0]
    number = answered(predict(server, {"ndarray": 1.5}))["gtensors"]["tensors"][0]
    assert "shape" not in number
    assert number["flat_float32"] == [1.5]


@pytest.mark.parametrize(
    "body",
    [
        {"str_data": "a"},
        {"gmap": {"s_s": {"a": "b"}}},
        tensors({"name": "a", "dtype": "DT_FLOAT64", "shape": [1], "flat_float64": [1]}),
        tensors(
            {"name": "a", "dtype": "DT_FLOAT32", "shape": [1], "flat_float32": [1]},
            {"name": "b", "dtype": "DT_FLOAT32", "shape": [1], "flat_float32": [1]},
        ),
    ],
    ids=repr,
)
def test_only_a_single_float_tensor_can_be_an_ndarray(server, body):
    assert refused(predict(server, body, "?return-ndarray=true"))


def test_return_ndarray_works_for_every_float_output(server):
    body = {
        "model": "identity_fp32-1",
        **tensors({"dtype": "DT_FLOAT32", "shape": [2], "flat_float32": [1, 2]}),
    }

    assert answered(predict(server, body, "?return-ndarray=true")) == {"ndarray": [1.0, 2.0]}


def test_data_maps_to_the_inputs_of_a_tensor_model(server):
    octets = {"Content-Type": "application/octet-stream"}

    texts = answered(predict(server, {"str_data": "a", "model": "identity_bytes"}))
    assert texts == {"str_data": "a"}
    blob = predict(server, b"\xff\x00", "?model=identity_bytes", **octets)
    assert blob.content == b"\xff\x00"
    raw = predict(server, b"\0\0\x80\x3f", "?model=identity_fp32", **octets)
    assert raw.json()["gtensors"]["tensors"][0]["flat_float32"] == [1.0]
    assert refused(predict(server, b"\0\0\x80", "?model=identity_fp32", **octets))
    flags = tensors({"dtype": "DT_UINT8", "shape": [3], "flat_uint8": [1, 0, 1]})
    assert refused(predict(server, {**flags, "model": "mymodel"}))


# --- choosing the model


@pytest.mark.parametrize(
    ("model", "query", "answer"),
    [
        ("other_model-2.0.0", "", "other:a"),
        ("other_model", "", "other:a"),
        (None, "?model=other_model-2.0.0", "other:a"),
        (None, "?model=other_model", "other:a"),
        ("your_model-1.0.0", "?model=other_model-2.0.0", "a"),
        ("", "?model=other_model-2.0.0", "other:a"),
        (None, "?model=", "a"),
        (None, "", "a"),
    ],
)
def test_the_model_is_taken_from_the_payload_the_query_or_the_default(
    server, model, query, answer
):
    body = {"str_data": "a", **({} if model is None else {"model": model})}

    assert answered(predict(server, body, query))["str_data"] == answer


@pytest.mark.parametrize("model", ["nosuch", "your_model-9", "your_model-", "-1.0.0", "your"])
def test_an_unknown_model_is_404(server, model):
    assert model in refused(predict(server, {"str_data": "a", "model": model}), 404)
    assert refused(predict(server, {"str_data": "a"}, f"?model={model}"), 404)
    answer = call(server, "Predict", str_data="a", model=model)
    assert (answer.status.code, answer.status.status) == (404, grps_pb2.Status.FAILURE)


def test_a_model_name_with_a_dash_is_not_split(odd):
    assert answered(predict(odd, {"str_data": "x", "model": "a-b"})) == {"str_data": "x"}
    assert answered(predict(odd, {"str_data": "x", "model": "a-b-1"}))


# --- streaming


def chunks(server, target: str, body: bytes) -> tuple[bytes, list[bytes]]:
    """The head of a response, and its chunks as framed."""
    host, port = server.http.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        head = f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        head += f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        got = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, rest = got.partition(b"\r\n\r\n")
    parts = []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        parts.append(rest[:length])
        rest = rest[length + 2 :]
    assert parts[-1] == b""
    return head.lower(), parts[:-1]


@pytest.mark.parametrize("value", ["true", "TRUE"])
def test_each_chunk_of_a_stream_is_one_line_of_json(server, value):
    target = f"/grps/v1/infer/predict?streaming={value}&model=stream_model-1.0.0"

    head, parts = chunks(server, target, b'{"str_data": "a"}')

    assert b"transfer-encoding: chunked" in head
    assert b"content-type: application/octet-stream" in head
    assert [part[-1:] for part in parts] == [b"\n", b"\n"]
    assert [json.loads(part) for part in parts] == [
        {"status": OK, "str_data": f"stream data {number}"} for number in (1, 2)
    ]


def test_a_model_without_streaming_sends_one_message(server):
    _, parts = chunks(server, "/grps/v1/infer/predict?streaming=true", b'{"str_data": "a"}')

    assert [json.loads(part)["str_data"] for part in parts] == ["a"]


def test_an_error_after_the_start_is_the_last_chunk(odd):
    target = "/grps/v1/infer/predict?streaming=true&model=fails_later-1"

    head, parts = chunks(odd, target, b'{"str_data": "a"}')

    assert head.startswith(b"http/1.1 200")
    assert json.loads(parts[0])["str_data"] == "first"
    assert json.loads(parts[1])["status"]["code"] == 500
    assert json.loads(parts[1])["status"]["status"] == "FAILURE"
    assert len(parts) == 2


def test_an_error_before_the_first_chunk_is_an_ordinary_response(server):
    assert refused(predict(server, {}, "?streaming=true"))
    assert refused(predict(server, {"str_data": "a"}, "?streaming=true&model=nosuch"), 404)
    assert refused(predict(server, {"ndarray": [1]}, "?streaming=true&return-ndarray=true"))


# --- gRPC


def test_a_success_ignores_the_status_of_the_request(server):
    failed = grps_pb2.Status(code=500, msg="x", status=grps_pb2.Status.FAILURE)

    answer = call(server, "Predict", str_data="a", status=failed)

    assert (answer.status.code, answer.status.msg) == (200, "OK")
    assert answer.status.status == grps_pb2.Status.SUCCESS
    assert answer.str_data == "a"


def test_bytes_are_accepted_and_an_empty_ndarray_is_not(server):
    assert call(server, "Predict", bin_data=b"\xff\0").bin_data == b"\xff\0"
    answer = call(server, "Predict", ndarray=grps_pb2.NDArrayData())
    assert (answer.status.code, answer.status.status) == (400, grps_pb2.Status.FAILURE)
    assert call(server, "Predict").status.code == 400


def test_a_message_above_4_mib_is_accepted(server):
    blob = bytes(6 * 1024 * 1024)
    message = grps_pb2.GrpsMessage(bin_data=blob).SerializeToString()
    options = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(server.grpc, options=options) as channel:
        answer = channel.unary_unary(SERVICE + "Predict")(message, timeout=20)

    assert grps_pb2.GrpsMessage.FromString(answer).bin_data == blob


def test_a_stream_over_grpc_ends_with_the_failure(odd, server):
    def stream(target, model: str) -> list:
        message = grps_pb2.GrpsMessage(str_data="a", model=model).SerializeToString()
        with grpc.insecure_channel(target.grpc) as channel:
            parts = channel.unary_stream(SERVICE + "PredictStreaming")(message, timeout=10)
            return [grps_pb2.GrpsMessage.FromString(part) for part in parts]

    assert [part.str_data for part in stream(server, "stream_model-1.0.0")] == [
        "stream data 1",
        "stream data 2",
    ]
    assert [part.str_data for part in stream(server, "")] == ["a"]
    assert [part.status.code for part in stream(odd, "fails_later-1")] == [200, 500]
    assert [part.status.code for part in stream(server, "nosuch")] == [404]


@pytest.mark.parametrize("garbage", [b"\xff", b"\x0a\x05a", b"\x22\x01\xff"])
def test_bytes_that_are_not_a_message_fail_the_call(server, garbage):
    with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(SERVICE + "Predict")(garbage, timeout=10)

    assert caught.value.code().name in {"INVALID_ARGUMENT", "INTERNAL"}
    assert "Traceback" not in caught.value.details()


def test_types_without_a_grps_type_travel_in_wider_ones(server):
    flags = grps_pb2.GenericTensor(dtype=1, shape=[3], flat_uint8=[1, 0, 1], name="a")

    answer = call(server, "Predict", gtensors=grps_pb2.GenericTensorData(tensors=[flags]))

    assert answer.gtensors.tensors[0] == flags


def test_the_html_page_labels_its_figures(server):
    predict(server, {"str_data": "a"})
    answer = httpx.get(f"http://{server.http}/")

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    for word in ("qps", "fail rate", "latency avg", "latency max", "latency cdf", "cpu", "memory"):
        assert word in answer.text
    assert "your_model" in answer.text
    assert "http://" not in answer.text


def test_nan_and_infinity_round_trip(server):
    answer = answered(predict(server, {"ndarray": ["NaN", "Infinity"]}))

    values = [float(value) for value in answer["gtensors"]["tensors"][0]["flat_float32"]]
    assert math.isnan(values[0])
    assert values[1] == math.inf
