"""Open Inference Protocol over gRPC and the standard health service, on a running server."""

import grpc
import httpx
import pytest

from moorage_runtime.codec._generated import health_pb2, oip_pb2
from support import odd_models
from support.runtime import serving

pytestmark = pytest.mark.conformance

SERVICE = "/inference.GRPCInferenceService/"
HEALTH = "/grpc.health.v1.Health/"


@pytest.fixture(scope="module")
def server(grpc_server):
    """The main set, with each transport."""
    return grpc_server


@pytest.fixture(scope="module")
def odd(tmp_path_factory, grpc_transport):
    """A server with unusual models."""
    repository = odd_models.write(tmp_path_factory.mktemp("odd"))
    with serving(repository, f"--grpc-transport={grpc_transport}") as runtime:
        yield runtime


def call(server, method: str, message, kind, **options):
    """The response of one call."""
    with grpc.insecure_channel(server.grpc) as channel:
        path = method if method.startswith("/") else SERVICE + method
        return kind.FromString(
            channel.unary_unary(path)(message.SerializeToString(), timeout=20, **options)
        )


def infer(server, message, **options):
    return call(server, "ModelInfer", message, oip_pb2.ModelInferResponse, **options)


def fails(server, message, method: str = "ModelInfer") -> tuple[str, str]:
    """Status and text of a call that must fail."""
    with pytest.raises(grpc.RpcError) as caught:
        call(server, method, message, oip_pb2.ModelInferResponse)
    assert caught.value.details()
    assert "Traceback" not in caught.value.details()
    return caught.value.code().name, caught.value.details()


def request(*inputs, model="your_model", raw=(), **members):
    message = oip_pb2.ModelInferRequest(model_name=model, raw_input_contents=raw, **members)
    message.inputs.extend(inputs)
    return message


def tensor(datatype, shape, name="x", **contents):
    item = oip_pb2.ModelInferRequest.InferInputTensor(name=name, datatype=datatype, shape=shape)
    for field, values in contents.items():
        getattr(item.contents, field).extend(values)
    return item


ONE = tensor("FP32", [1], fp32_contents=[1.0])
ONE_RAW = tensor("FP32", [1])


@pytest.mark.parametrize("method", ["ModelConfig", "ModelStatistics", "RepositoryIndex", "nosuch"])
def test_other_methods_are_unimplemented(server, method):
    with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(SERVICE + method)(b"", timeout=10)

    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("method", ["ModelReady", "ModelMetadata"])
@pytest.mark.parametrize(
    ("name", "version", "status"),
    [
        ("nosuch", "", "NOT_FOUND"),
        ("my_model", "v11", "NOT_FOUND"),
        ("", "", "INVALID_ARGUMENT"),
        ("", "1", "INVALID_ARGUMENT"),
    ],
)
def test_an_unknown_model_is_not_found_and_an_empty_name_is_invalid(
    server, method, name, version, status
):
    message = oip_pb2.ModelReadyRequest(name=name, version=version)

    assert fails(server, message, method)[0] == status


def test_a_loading_model_is_not_ready_and_unavailable(server_of):
    server = server_of("loading")
    loading = oip_pb2.ModelReadyRequest(name="loading")

    assert call(server, "ServerLive", oip_pb2.ServerLiveRequest(), oip_pb2.ServerLiveResponse).live
    # the encoding has no byte for false
    assert call(
        server, "ServerReady", oip_pb2.ServerReadyRequest(), oip_pb2.ServerReadyResponse
    ) == (oip_pb2.ServerReadyResponse())
    assert not call(server, "ModelReady", loading, oip_pb2.ModelReadyResponse).ready
    assert call(
        server,
        "ModelReady",
        oip_pb2.ModelReadyRequest(name="my_model", version="v10"),
        oip_pb2.ModelReadyResponse,
    ).ready
    assert fails(server, request(ONE, model="loading"))[0] == "UNAVAILABLE"


def test_metadata_equals_that_of_http(server):
    url = f"http://{server.http}/v2"
    of_server = call(
        server, "ServerMetadata", oip_pb2.ServerMetadataRequest(), oip_pb2.ServerMetadataResponse
    )
    http = httpx.get(url).json()
    assert (of_server.name, of_server.version) == (http["name"], http["version"])
    assert list(of_server.extensions) == http["extensions"]
    for model in ("my_model", "multi", "two_out", "your_model", "identity_bytes"):
        answer = call(
            server,
            "ModelMetadata",
            oip_pb2.ModelMetadataRequest(name=model),
            oip_pb2.ModelMetadataResponse,
        )
        http = httpx.get(f"{url}/models/{model}").json()
        assert (answer.name, list(answer.versions), answer.platform) == (
            http["name"],
            http["versions"],
            http["platform"],
        )
        for side in ("inputs", "outputs"):
            assert [
                {"name": t.name, "datatype": t.datatype, "shape": list(t.shape)}
                for t in getattr(answer, side)
            ] == http[side]


@pytest.mark.parametrize(
    ("datatype", "field", "values"),
    [
        ("BOOL", "bool_contents", [True, False]),
        ("INT8", "int_contents", [-128, 127]),
        ("INT16", "int_contents", [-(2**15), 2**15 - 1]),
        ("INT32", "int_contents", [-(2**31), 2**31 - 1]),
        ("INT64", "int64_contents", [-(2**63), 2**63 - 1]),
        ("UINT8", "uint_contents", [0, 255]),
        ("UINT16", "uint_contents", [0, 2**16 - 1]),
        ("UINT32", "uint_contents", [0, 2**32 - 1]),
        ("UINT64", "uint64_contents", [0, 2**64 - 1]),
        ("FP32", "fp32_contents", [1.5, float("inf")]),
        ("FP64", "fp64_contents", [0.1, float("-inf")]),
        ("BYTES", "bytes_contents", [b"", b"\xff\0"]),
    ],
)
def test_typed_requests_get_typed_responses(server, datatype, field, values):
    answer = infer(server, request(tensor(datatype, [2], **{field: values}), id="7"))

    assert list(getattr(answer.outputs[0].contents, field)) == values
    assert answer.raw_output_contents == []
    assert (answer.model_name, answer.model_version, answer.id) == ("your_model", "1.0.0", "7")
    assert (answer.outputs[0].datatype, list(answer.outputs[0].shape)) == (datatype, [2])


@pytest.mark.parametrize(
    ("datatype", "raw"),
    [
        ("BOOL", b"\x01\x00"),
        ("UINT8", b"\x01\xff"),
        ("INT16", b"\x01\x00\xff\xff"),
        ("FP16", b"\x00\x3c\x00\xc0"),
        ("BF16", b"\x80\x3f\x00\xc0"),
        ("FP32", b"\x00\x00\x80\x3f\x00\x00\xc0\x7f"),
        ("UINT64", b"\xff" * 16),
        ("BYTES", b"\x00\x00\x00\x00\x02\x00\x00\x00\xff\x00"),
    ],
)
def test_raw_requests_get_raw_responses(server, datatype, raw):
    answer = infer(server, request(tensor(datatype, [2, 1]), raw=[raw]))

    assert answer.raw_output_contents == [raw]
    assert not answer.outputs[0].HasField("contents")
    assert list(answer.outputs[0].shape) == [2, 1]
    assert answer.id == ""


def test_any_nonzero_raw_byte_is_true(server):
    answer = infer(server, request(tensor("BOOL", [3]), raw=[b"\x02\x00\xff"]))

    assert answer.raw_output_contents == [b"\x01\x00\x01"]


def test_a_bf16_output_makes_the_response_raw(odd):
    typed = request(model="half_types")
    typed.inputs.append(tensor("BF16", [1], fp32_contents=[1.0]))

    assert fails(odd, typed)[0] == "INVALID_ARGUMENT"
    answer = infer(odd, request(tensor("BF16", [1]), model="half_types", raw=[b"\x80\x3f"]))
    assert answer.raw_output_contents == [b"\x80\x3f"]


def test_an_empty_tensor_has_an_empty_raw_entry(server):
    typed = infer(server, request(tensor("FP32", [0, 3])))
    raw = infer(server, request(tensor("FP32", [0]), tensor("INT8", [1], "z"), raw=[b"", b"\x05"]))

    assert list(typed.outputs[0].shape) == [0, 3]
    assert raw.raw_output_contents == [b"", b"\x05"]


@pytest.mark.parametrize(
    "message",
    [
        request(ONE, raw=[b"\0\0\x80\x3f"]),
        request(ONE_RAW, raw=[b"\0" * 4, b"\0" * 4]),
        request(ONE_RAW, tensor("FP32", [1], "z"), raw=[b"\0" * 4]),
        request(ONE_RAW, raw=[b"\0" * 3]),
        request(ONE_RAW, raw=[b"\0" * 5]),
        request(ONE_RAW, raw=[b""]),
        request(tensor("BYTES", [1]), raw=[b"\x05\0\0\0a"]),
        request(tensor("BYTES", [2]), raw=[b"\x01\0\0\0a"]),
        request(tensor("BYTES", [1]), raw=[b"\x01\0\0\0ab"]),
        request(tensor("FP16", [1], fp32_contents=[1.0])),
        request(tensor("FP32", [1], fp64_contents=[1.0])),
        request(tensor("FP32", [1], fp32_contents=[1.0], fp64_contents=[1.0])),
        request(tensor("FP32", [2], fp32_contents=[1.0])),
        request(tensor("FP32", [1], fp32_contents=[1.0, 2.0])),
        request(tensor("INT8", [1], int_contents=[128])),
        request(tensor("INT16", [1], int_contents=[-(2**15) - 1])),
        request(tensor("UINT8", [1], uint_contents=[256])),
        request(tensor("UINT16", [1], uint_contents=[2**16])),
        request(ONE_RAW),
        request(tensor("FP32", [-1], fp32_contents=[1.0])),
        request(tensor("FP32", [2**62, 4], fp32_contents=[1.0])),
        request(tensor("fp32", [1], fp32_contents=[1.0])),
        request(tensor("", [1], fp32_contents=[1.0])),
        request(tensor("FP32", [1], "", fp32_contents=[1.0]), model="identity_fp32"),
        request(ONE, ONE),
        request(ONE, tensor("FP32", [1], "z", fp32_contents=[1.0]), model="identity_fp32"),
        request(model="identity_fp32"),
        request(tensor("FP64", [1], fp64_contents=[1.0]), model="identity_fp32"),
        request(tensor("FP32", [1, 1], fp32_contents=[1.0]), model="identity_fp32"),
        request(ONE, model="identity_fp32", outputs=[{"name": "nosuch"}]),
        request(ONE, model="identity_fp32", outputs=[{"name": "y"}, {"name": "y"}]),
        request(ONE, model=""),
    ],
    ids=str,
)
def test_a_malformed_or_unsuitable_request_is_invalid(server, message):
    assert fails(server, message)[0] == "INVALID_ARGUMENT"


def test_an_empty_contents_message_with_raw_data_is_accepted(server):
    item = tensor("FP32", [1])
    item.contents.SetInParent()

    assert infer(server, request(item, raw=[b"\0\0\x80\x3f"])).raw_output_contents


def test_only_requested_outputs_are_returned_in_the_requested_order(server):
    def names(*asked: str) -> list[str]:
        outputs = [{"name": name} for name in asked]
        answer = infer(server, request(ONE, model="two_out", outputs=outputs))
        return [output.name for output in answer.outputs]

    assert names() == ["a", "b"]
    assert names("b", "a") == ["b", "a"]
    assert names("b") == ["b"]


def test_parameters_of_every_kind_reach_the_model(odd):
    message = request(ONE, model="parameters")
    message.parameters["flag"].bool_param = True
    message.parameters["whole"].int64_param = -3
    message.parameters["word"].string_param = "a"
    message.parameters["part"].double_param = 0.5
    message.parameters["big"].uint64_param = 2**64 - 1
    message.parameters["none"].SetInParent()

    answer = infer(odd, message)

    assert answer.outputs[0].contents.bytes_contents == [
        b'{"big": 18446744073709551615, "flag": true, "part": 0.5, "whole": -3, "word": "a"}'
    ]


@pytest.mark.parametrize(
    ("model", "version", "answered"),
    [("versions", "", "10"), ("versions", "9", "9"), ("named", "", "v10")],
)
def test_the_response_names_the_version(odd, model, version, answered):
    answer = infer(odd, request(ONE, model=model, model_version=version))

    assert answer.model_version == answered
    assert answer.outputs[0].contents.bytes_contents == [answered.encode()]


def test_each_failure_has_its_own_code(odd):
    assert fails(odd, request(ONE, model="nosuch"))[0] == "NOT_FOUND"
    assert fails(odd, request(ONE, model="named", model_version="10"))[0] == "NOT_FOUND"
    texts = tensor("BYTES", [1], bytes_contents=[b"a"])
    status, text = fails(odd, request(texts, model="fails"))
    assert status == "INTERNAL"
    assert "model.py" not in text


@pytest.mark.parametrize("method", ["ServerLive", "ModelReady", "ModelInfer", "ModelMetadata"])
def test_invalid_bytes_fail_only_their_call(server, method):
    with grpc.insecure_channel(server.grpc) as channel:
        for garbage in (b"\xff", b"\x0a\x05a", b"\x0a\xff\xff\xff\xff\x0f", bytes(range(256))):
            with pytest.raises(grpc.RpcError) as caught:
                channel.unary_unary(SERVICE + method)(garbage, timeout=10)
            assert caught.value.code().name in {"INVALID_ARGUMENT", "INTERNAL"}
            assert "Traceback" not in caught.value.details()
        assert channel.unary_unary(SERVICE + "ServerLive")(b"", timeout=10) == b"\x08\x01"


@pytest.mark.parametrize("algorithm", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_a_compressed_message_above_4_mib_is_read(server, algorithm):
    raw = bytes(6 * 1024 * 1024)
    message = request(tensor("UINT8", [len(raw)]), raw=[raw])
    with grpc.insecure_channel(
        server.grpc, options=[("grpc.max_receive_message_length", -1)]
    ) as channel:
        answer = channel.unary_unary(SERVICE + "ModelInfer")(
            message.SerializeToString(), timeout=30, compression=algorithm
        )

    assert oip_pb2.ModelInferResponse.FromString(answer).raw_output_contents == [raw]


@pytest.mark.parametrize(
    ("service", "status"),
    [
        ("", "SERVING"),
        ("readiness", "SERVING"),
        ("liveness", "SERVING"),
        ("inference.GRPCInferenceService", "SERVING"),
        ("grps.protos.v1.GrpsService", "SERVING"),
        ("model:my_model", "SERVING"),
        ("model:my_model/v10", "SERVING"),
    ],
)
def test_health_has_a_service_for_each_question(server, service, status):
    message = health_pb2.HealthCheckRequest(service=service)

    answer = call(server, HEALTH + "Check", message, health_pb2.HealthCheckResponse)

    assert health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status) == status


@pytest.mark.parametrize(
    ("service", "status"),
    [("", 2), ("readiness", 2), ("liveness", 1), ("model:loading", 2), ("model:my_model", 1)],
)
def test_health_while_a_model_loads(server_of, service, status):
    message = health_pb2.HealthCheckRequest(service=service)

    answer = call(server_of("loading"), HEALTH + "Check", message, health_pb2.HealthCheckResponse)

    assert answer.status == status


@pytest.mark.parametrize("service", ["nosuch", "model:nosuch", "model:my_model/v11", "model:"])
def test_health_of_an_unknown_service_is_not_found(server, service):
    message = health_pb2.HealthCheckRequest(service=service)

    assert fails(server, message, HEALTH + "Check")[0] == "NOT_FOUND"
    with grpc.insecure_channel(server.grpc) as channel:
        watched = channel.unary_stream(HEALTH + "Watch")(message.SerializeToString(), timeout=10)
        first = health_pb2.HealthCheckResponse.FromString(next(watched))
        watched.cancel()
    assert first.status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
