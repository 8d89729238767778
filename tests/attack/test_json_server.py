"""A hostile JSON body does not delay the health checks of other clients."""

import json

import pytest

from support.attack import HEALTH_SECONDS, exchange, health_checks, longest, post

pytestmark = pytest.mark.attack

MIB = 1024 * 1024
NUMBERS = ",".join(map(str, range(5000)))
INFER, PREDICT = "/v2/models/strings/infer", "/v1/models/strings:predict"
GRPS = "/grps/v1/infer/predict?model=strings"
OIP = '{"id":"%s","inputs":[{"name":"x","shape":[-1],"datatype":"BYTES","data":%s}]}'
GRPS_TENSOR = (
    '{"gtensors":{"tensors":[{"name":"x","dtype":"DT_INT64","shape":[500000],"flat_int64":'
)
BODIES = {
    "a run of the placeholder's character": (INFER, OIP % ("@" * 220_000, f"[{NUMBERS}]")),
    "strings of @": (INFER, OIP % ("", json.dumps(["@" * 1000] * 220))),
    "many short strings": (INFER, OIP % ("", json.dumps(["ab"] * 1_000_000))),
    "many objects": (PREDICT, json.dumps({"instances": [{"b64": "YWI="}] * 200_000})),
    "too many objects": (PREDICT, json.dumps({"instances": [{}] * 1_000_000})),
    "too many strings": (INFER, OIP % ("", json.dumps([""] * 2_000_000))),
    "escaped quotation marks": (INFER, OIP % (r"\"" * (7 * MIB), f"[{NUMBERS}]")),
    "nothing but brackets": (INFER, "[" * (15 * MIB)),
    "numbers and then an error": (INFER, OIP % ("", f"[{'1,' * (7 * MIB)}]")),
    "GRPS: quoted numbers": (
        GRPS,
        GRPS_TENSOR + json.dumps(["12"] * 500_000) + "}]}}",
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_health_checks_are_answered_while_a_hostile_body_is_parsed(server, name):
    path, text = BODIES[name]

    with health_checks(server.http_port, server.process.pid) as waits:
        answer = exchange(
            server.http_port, post(path, text.encode(), "Content-Type: application/json")
        )

    assert answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 400"))
    assert longest(waits) < HEALTH_SECONDS


@pytest.mark.parametrize("path", [INFER, PREDICT, GRPS], ids=["oip", "tensorflow-serving", "grps"])
def test_json_above_the_limit_is_refused_with_the_setting_and_an_alternative(server, path):
    body = b'{"inputs":[' + b" " * (16 * MIB) + b"]}"

    answer = exchange(server.http_port, post(path, body, "Content-Type: application/json"))

    assert answer.startswith(b"HTTP/1.1 413")
    assert b"--max-json-bytes" in answer
    assert b"binary tensor extension" in answer
