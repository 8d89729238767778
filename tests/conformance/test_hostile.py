"""The operator's poller with hostile servers: verdicts, and effects on other models."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.liars import attacking

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

TESTS = Path(__file__).resolve().parents[1]
BESIDE = TESTS / "support" / "polling_beside.py"
SECONDS = "0.5"
P99_LIMIT_MILLISECONDS = 100
MEMORY_LIMIT_MIB = 64
VERDICT_LIMIT_SECONDS = 5.0
"""A poll asks at most three questions of a second each, one after the other."""
CPU_LIMIT_AFTER = 0.8
"""Of a core, after the server is polled no more: good models take a tenth, a loop takes all."""

REST, GRPC = "OpenInference/HTTP", "OpenInference/GRPC"
TFS, GRPS, GRPS_GRPC = "TensorFlowServing/HTTP", "GRPS/HTTP", "GRPS/GRPC"
OPENAI = "OpenAI/HTTP"
# The protocol of each query, and the reason in the status.
VERDICTS = {
    "interim-flood": (REST, "ProtocolMismatch"),
    "interim-hints": (REST, "ProtocolMismatch"),
    "header-flood": (REST, "ProtocolMismatch"),
    "header-without-end": (REST, "ProtocolMismatch"),
    "trailers-without-end": (REST, "ProtocolMismatch"),
    "chunks-of-one-byte": (REST, "ProtocolMismatch"),
    "chunk-extensions": (REST, "ProtocolMismatch"),
    "chunk-size-huge": (REST, "ProtocolMismatch"),
    "chunk-size-without-end": (REST, "ProtocolMismatch"),
    "chunk-size-negative": (REST, "ProtocolMismatch"),
    "chunk-overrun": (REST, "ProtocolMismatch"),
    "two-lengths": (REST, "ProtocolMismatch"),
    "length-negative": (REST, "ProtocolMismatch"),
    "redirects-without-end": (REST, "ProtocolMismatch"),
    "json-huge": (REST, "ProtocolMismatch"),
    "json-of-a-mebibyte": (REST, "ProtocolMismatch"),
    "silent": (REST, "ProbeTimeout"),
    "drips-head": (REST, "ProbeTimeout"),
    "drips-body": (REST, "ProbeTimeout"),
    "drips-chunks": (REST, "ProbeTimeout"),
    "json-deep": (REST, "ModelLoading"),
    "json-keys": (REST, "ModelLoading"),
    "json-numbers": (REST, "ModelLoading"),
    "unicode-invalid": (REST, "ModelLoading"),
    "json-of-lists-where-there-is-room": (REST, "ModelLoadFailed"),
    "dates-that-jump": (REST, "Serving"),
    "unicode-control": (REST, "Serving"),
    "another-model": (REST, "ModelNotFound"),
    "models-of-others": (OPENAI, "ModelNotFound"),
    "models-without-end": (OPENAI, "ProtocolMismatch"),
    "models-unicode": (OPENAI, "ModelNotFound"),
    "models-deep": (OPENAI, "Serving"),
    "status-deep": (TFS, "ProtocolMismatch"),
    "yaml-alias-bomb": (GRPS, "Serving"),
    "yaml-deep": (GRPS, "ProtocolMismatch"),
    "yaml-huge": (GRPS, "Serving"),
    "h2-settings-flood": (GRPC, "ProtocolMismatch"),
    "h2-ping-flood": (GRPC, "ProtocolMismatch"),
    "h2-continuation-flood": (GRPC, "ProtocolMismatch"),
    "h2-reset-flood": (GRPC, "ServerNotLive"),
    "h2-empty-data-flood": (GRPC, "ProtocolMismatch"),
    "h2-huge-message": (GRPC, "ProtocolMismatch"),
    "h2-stream-without-end": (GRPC, "ProbeTimeout"),
    "h2-silent": (GRPC, "ProbeTimeout"),
    "protobuf-of-empty-messages": (GRPC, "ProtocolMismatch"),
    "protobuf-deep": (GRPC, "ModelLoading"),
    "protobuf-yaml-alias-bomb": (GRPS_GRPC, "Serving"),
}


@pytest.fixture(scope="module")
def felt() -> dict[str, dict[str, Any]]:
    """The measurements for each program, one after the other."""
    with ExitStack() as stack:
        good = stack.enter_context(attacking("good"))
        ports = {name: stack.enter_context(attacking(name)) for name in VERDICTS}
        servers = [f"{name}={VERDICTS[name][0]}:{port}" for name, port in ports.items()]
        command = [sys.executable, BESIDE, "--good", str(good), "--seconds", SECONDS]
        done = subprocess.run(
            [*command, "--attempts", "10", *servers],
            capture_output=True,
            text=True,
            check=True,
            timeout=240,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )
    found = {each["name"]: each for each in map(json.loads, done.stdout.splitlines())}
    print(f"\n{'program':34} {'reason':18} {'p99':>8} {'alone':>8} {'RSS':>8} {'CPU after':>9}")  # noqa: T201
    for name, each in found.items():
        times = f"{each['good_p99_ms']:5.0f} ms {each['alone_p99_ms']:5.0f} ms"
        rest = f"{each['memory_mib']:+4.0f} MiB {each['cpu_after']:8.0%}"
        print(f"{name:34} {each['reason']:18} {times} {rest}")  # noqa: T201
    return found


@pytest.mark.parametrize("name", VERDICTS)
def test_an_attack_gets_a_verdict_without_affecting_other_models(
    felt: dict[str, dict[str, Any]], name: str
) -> None:
    found = felt[name]

    assert found["reason"] == VERDICTS[name][1]
    assert found["message"].isprintable()
    assert set(found["good_outcomes"]) == {"Ready"}
    assert found["verdict_seconds"] < VERDICT_LIMIT_SECONDS
    assert found["good_p99_ms"] < max(P99_LIMIT_MILLISECONDS, 2 * found["alone_p99_ms"])
    assert found["cpu_after"] < CPU_LIMIT_AFTER
    assert found["memory_mib"] < MEMORY_LIMIT_MIB


def test_names_that_are_not_printable_reach_the_status_escaped(
    felt: dict[str, dict[str, Any]],
) -> None:
    model = felt["unicode-control"]["model"]

    assert model["inputs"][0]["name"].startswith("x\\u202etxt")
    assert model["inputs"][0]["name"].isprintable()
    assert felt["unicode-control"]["server"]["name"].isprintable()
