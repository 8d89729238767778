"""The examples in the documentation of TensorFlow Serving and GRPS, sent with curl.

Missing commas and brackets of the documentation are corrected; missing data is added.
"""

import json
import shutil
import subprocess

import pytest

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]

OK = {"code": 200, "msg": "OK", "status": "SUCCESS"}
CLASSIFY = """{
  "signature_name": "classify_objects",
  "examples": [
    {
      "image": { "b64": "aW1hZ2UgYnl0ZXM=" },
      "caption": "seaside"
    },
    {
      "image": { "b64": "YXdlc29tZSBpbWFnZSBieXRlcw==" },
      "caption": "mountains"
    }
  ]
}"""
MULTI = """{
 "instances": [
   {
     "tag": ["foo"],
     "signal": [1, 2, 3, 4, 5],
     "sensor": [[1, 2], [3, 4]]
   },
   {
     "tag": ["bar"],
     "signal": [3, 4, 1, 2, 5],
     "sensor": [[4, 5], [6, 8]]
   }
 ]
}"""
READINGS = """{
  "examples": [
    {
      "sensor_readings": [ 1.0, -3.14, NaN, Infinity ]
    }
  ]
}"""
PAIRS = [[["cat", 0.25], ["", 0.75]]] * 2


def curl(server, path: str, *options: str) -> bytes:
    done = subprocess.run(
        [
            "curl",
            "--silent",
            "--show-error",
            "--noproxy",
            "*",
            *options,
            f"http://{server.http}{path}",
        ],
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("path", "body", "answer"),
    [
        ("iris:classify", CLASSIFY, {"results": PAIRS, "result": PAIRS}),
        (
            "mnist/versions/314:predict",
            '{"instances": [1.0, 2.0, 5.0]}',
            {"predictions": [3.5, 4.0, 5.5]},
        ),
        (
            "strs:predict",
            '{ "instances": [ "foo", "bar", "baz" ] }',
            {"predictions": ["foo", "bar", "baz"]},
        ),
        (
            "f12:predict",
            '{ "instances": [ [[1, 2]], [[3, 4]] ] }',
            {"predictions": [[[1.0, 2.0]], [[3.0, 4.0]]]},
        ),
        ("multi:predict", MULTI, {"predictions": json.loads(MULTI)["instances"]}),
        (
            "sensor_regress:regress",
            READINGS,
            {"results": [float("inf")], "result": [float("inf")]},
        ),
    ],
)
def test_tensorflow_servings_examples(server, path, body, answer):
    # curl sends Content-Type application/x-www-form-urlencoded
    assert json.loads(curl(server, f"/v1/models/{path}", "-d", body)) == answer


def test_the_misspelled_example_is_refused(server):
    misspelt = READINGS.replace("NaN", "Nan").replace("examples", "example")

    assert json.loads(curl(server, "/v1/models/sensor_regress:regress", "-d", misspelt))["error"]


@pytest.mark.parametrize("query", ["?model=your_model-1.0.0", ""])
@pytest.mark.parametrize("model", ["", '"model": "your_model-1.0.0", '])
def test_grps_text_example(server, query, model):
    body = f'{{{model}"str_data": "hello grps"}}'
    json_type = "Content-Type:application/json"

    answer = curl(
        server, f"/grps/v1/infer/predict{query}", "-X", "POST", "-H", json_type, "-d", body
    )

    assert json.loads(answer) == {"status": OK, "str_data": "hello grps"}


@pytest.mark.parametrize("method", ["online", "live", "ready"])
def test_grps_health_examples(server, method):
    json_type = "Content-Type:application/json"

    answer = curl(server, f"/grps/v1/health/{method}", "-X", "GET", "-H", json_type, "-d", "{}")

    assert json.loads(answer) == {"status": OK}


def test_grps_bytes_example(server, tmp_path):
    file = tmp_path / "picture"
    file.write_bytes(bytes(range(256)) * 100)
    octets = "Content-Type:application/octet-stream"

    answer = curl(
        server, "/grps/v1/infer/predict", "-X", "POST", "-H", octets, "--data-binary", f"@{file}"
    )

    assert answer == file.read_bytes()


def test_grps_stream_example_arrives_in_parts(server):
    answer = curl(
        server,
        "/grps/v1/infer/predict?streaming=true&model=stream_model-1.0.0",
        "--no-buffer",
        "-H",
        "Content-Type:application/json",
        "-d",
        '{"str_data": "hello grps"}',
    )

    assert [json.loads(line)["str_data"] for line in answer.splitlines()] == [
        "stream data 1",
        "stream data 2",
    ]


def test_a_large_upload_waits_for_continue(server, tmp_path):
    file = tmp_path / "large"
    file.write_bytes(bytes(3 * 1024 * 1024))
    octets = "Content-Type:application/octet-stream"
    arguments = ["-H", octets, "-H", "Expect: 100-continue", "--data-binary", f"@{file}"]

    headers = curl(
        server, "/grps/v1/infer/predict", "-D", "-", "-o", str(tmp_path / "got"), *arguments
    )

    assert headers.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200")
    assert (tmp_path / "got").read_bytes() == file.read_bytes()
