"""grpcurl, a client that knows only the proto files, calls every gRPC service."""

import base64
import json
import subprocess
from pathlib import Path

import pytest

from support.go_programs import program

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
MODULE = Path(__file__).parent / "grpcurl"
PACKAGE = "github.com/fullstorydev/grpcurl/cmd/grpcurl"


@pytest.fixture(scope="module")
def grpcurl() -> Path:
    """The program, built from pinned source."""
    return program(MODULE, PACKAGE)


@pytest.fixture
def ask(grpcurl, grpc_server):
    """A call with JSON input and output; returns the exit status, and the error of a failure."""

    def call(proto: str, method: str, message: dict) -> list[dict] | str:
        command = [grpcurl, "-plaintext", "-max-time", "20"]
        command += ["-import-path", ROOT / "runtime" / "proto", "-proto", proto]
        command += ["-d", json.dumps(message), grpc_server.grpc, method]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            return done.stderr
        decoder, rest, answers = json.JSONDecoder(), done.stdout.strip(), []
        while rest:
            value, end = decoder.raw_decode(rest)
            answers.append(value)
            rest = rest[end:].strip()
        return answers

    return call


def oip(ask, method: str, **message):
    return ask("oip.proto", f"inference.GRPCInferenceService/{method}", message)


def grps(ask, method: str, **message):
    return ask("grps.proto", f"grps.protos.v1.GrpsService/{method}", message)


def test_the_open_inference_protocol(ask):
    tensor = {"name": "x", "datatype": "FP32", "shape": ["2"]}
    typed = {**tensor, "contents": {"fp32_contents": [1.5, "Infinity"]}}
    raw = base64.b64encode(b"\0\0\x80\x3f\0\0\0\x40").decode()

    assert oip(ask, "ServerLive") == [{"live": True}]
    assert oip(ask, "ServerReady") == [{"ready": True}]
    assert oip(ask, "ModelReady", name="my_model", version="v10") == [{"ready": True}]
    assert oip(ask, "ServerMetadata")[0]["extensions"] == ["binary_tensor_data"]
    assert oip(ask, "ModelMetadata", name="my_model")[0]["inputs"] == [
        {"name": "x", "datatype": "FP32", "shape": ["-1", "4"]}
    ]
    answer = oip(ask, "ModelInfer", model_name="identity_fp32", id="7", inputs=[typed])[0]
    assert answer["outputs"][0]["contents"] == {"fp32Contents": [1.5, "Infinity"]}
    assert (answer["id"], answer["modelVersion"]) == ("7", "1")
    answer = oip(
        ask,
        "ModelInfer",
        model_name="identity_fp32",
        inputs=[tensor],
        raw_input_contents=[raw],
    )[0]
    assert answer["rawOutputContents"] == [raw]
    assert "Code: NotFound" in oip(ask, "ModelReady", name="nosuch")
    assert "Code: InvalidArgument" in oip(ask, "ModelInfer", model_name="identity_fp32")


def test_grps(ask):
    ok = {"code": 200, "msg": "OK", "status": "SUCCESS"}

    assert grps(ask, "CheckLiveness") == [{"status": ok}]
    assert grps(ask, "CheckReadiness") == [{"status": ok}]
    hello = grps(ask, "Predict", str_data="hello grps", model="your_model-1.0.0")
    assert hello == [{"status": ok, "strData": "hello grps"}]
    stream = grps(ask, "PredictStreaming", str_data="a", model="stream_model-1.0.0")
    assert [part["strData"] for part in stream] == ["stream data 1", "stream data 2"]
    assert grps(ask, "ModelMetadata", str_data="nosuch")[0]["status"]["code"] == 404


def test_health(ask):
    assert ask("health.proto", "grpc.health.v1.Health/Check", {}) == [{"status": "SERVING"}]
    assert "Code: NotFound" in ask(
        "health.proto", "grpc.health.v1.Health/Check", {"service": "nosuch"}
    )
