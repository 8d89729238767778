"""Requests in each protocol, their responses, and the evaluation of a server's protocols."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_cli.ask.inference.request import (
    InferenceProtocol,
    Request,
    answered,
    make_request,
    read_document,
)
from moorage_cli.judge.conformance import (
    CONTROL,
    Finding,
    HttpReply,
    Verdict,
    grpc_finding,
    grpc_questions,
    http_finding,
    http_questions,
    report,
)
from moorage_cli.judge.traffic import Requests, Usage, read_quantity, read_requests, top, why_idle
from moorage_cli.printing.failures import Failure
from moorage_cli.printing.tables import Palette

PLAIN = Palette(coloured=False)
OIP, TFS, GRPS = InferenceProtocol
TENSOR = {"name": "x", "shape": [2, 2], "datatype": "FP32", "data": [1, 2, 3, 4]}
DOCUMENT = {"inputs": [TENSOR]}


@pytest.mark.parametrize(
    ("protocol", "version", "path", "body"),
    [
        (OIP, "", "/v2/models/a%20b/infer", DOCUMENT),
        (OIP, "3", "/v2/models/a%20b/versions/3/infer", DOCUMENT),
        (TFS, "", "/v1/models/a%20b:predict", {"inputs": {"x": [[1, 2], [3, 4]]}}),
        (
            TFS,
            "3",
            "/v1/models/a%20b/versions/3:predict",
            {"inputs": {"x": [[1, 2], [3, 4]]}},
        ),
        (
            GRPS,
            "3",
            "/grps/v1/infer/predict",
            {
                "model": "a b-3",
                "gtensors": {
                    "tensors": [
                        {
                            "name": "x",
                            "dtype": "DT_FLOAT32",
                            "shape": [2, 2],
                            "flat_float32": [1, 2, 3, 4],
                        }
                    ]
                },
            },
        ),
    ],
)
def test_tensors_are_converted_to_the_models_protocol(protocol, version, path, body):
    assert make_request(protocol, "a b", version, DOCUMENT) == Request(path, body)


@pytest.mark.parametrize(
    ("protocol", "document", "body"),
    [
        (TFS, {"instances": [[1]]}, {"instances": [[1]]}),
        (TFS, {"inputs": {"x": [1]}}, {"inputs": {"x": [1]}}),
        (GRPS, {"str_data": "hi"}, {"model": "m", "str_data": "hi"}),
        (GRPS, {"str_data": "hi", "model": "n-1"}, {"model": "n-1", "str_data": "hi"}),
    ],
)
def test_a_request_in_the_form_of_the_protocol_is_unchanged(protocol, document, body):
    assert make_request(protocol, "m", "", document).body == body


@pytest.mark.parametrize(
    ("protocol", "document", "sentence"),
    [
        (OIP, {}, "inputs must be a list of tensors"),
        (OIP, {"inputs": []}, "inputs must be a list of tensors"),
        (OIP, {"inputs": ["x"]}, r"inputs\[0\]: 'x' is invalid"),
        (OIP, {"inputs": [{**TENSOR, "name": 1}]}, r"inputs\[0\].name: 1 is invalid"),
        (OIP, {"inputs": [{**TENSOR, "shape": [-1]}]}, r"shape: \[-1\] is invalid"),
        (OIP, {"inputs": [{**TENSOR, "data": "1"}]}, r"data: '1' is invalid"),
        (TFS, {"inputs": [{**TENSOR, "shape": [3]}]}, r"x.data has 4 values: shape \[3\]"),
        (GRPS, {"inputs": [{**TENSOR, "datatype": "BF16"}]}, "x.datatype: GRPS has no BF16"),
    ],
)
def test_an_invalid_document_is_refused(protocol, document, sentence):
    with pytest.raises(Failure, match=sentence):
        make_request(protocol, "m", "", document)


@given(st.lists(st.integers(0, 3), max_size=4))
def test_values_keep_their_order_whatever_the_shape(shape):
    count = 1
    for size in shape:
        count *= size
    tensor = {**TENSOR, "shape": shape, "data": list(range(count))}

    nested = make_request(TFS, "m", "", {"inputs": [tensor]}).body["inputs"]["x"]
    again = {"inputs": [{**tensor, "data": [nested]}]}
    flat = make_request(GRPS, "m", "", again).body["gtensors"]["tensors"][0]["flat_float32"]

    assert flat == tensor["data"]


@pytest.mark.parametrize(
    ("text", "sentence"), [("{", "line 1, column 2"), ("[]", "JSON object"), ("[" * 99999, "JSON")]
)
def test_a_file_without_a_json_object_is_refused(text, sentence):
    with pytest.raises(Failure, match=sentence):
        read_document(text, "file")


@pytest.mark.parametrize(
    ("code", "body", "ok"),
    [
        (200, {"outputs": []}, True),
        (400, {"error": "no"}, False),
        (200, {"error": "no"}, False),
        (200, {"status": {"code": 500, "status": "FAILURE"}}, False),
        (200, {"status": {"code": 200, "status": "SUCCESS"}}, True),
        (200, [1], False),
    ],
)
def test_a_response_is_ok_if_the_protocol_reports_success(code, body, ok):
    answer = answered(Request("/p", {}), code, json.dumps(body).encode())

    assert answer.ok is ok
    assert answer.text.startswith("HTTP") is not ok


def test_a_response_without_json_is_shown_without_control_characters():
    answer = answered(Request("/p", {}), 502, b"<h1>\x1b[0m bad\xff")

    assert not answer.ok
    assert answer.text == "HTTP 502 from /p: <h1>\ufffd[0m bad\ufffd\n"


NOT_FOUND = HttpReply(404, "")
QUESTIONS = {question.path: question for question in http_questions("m")}


@pytest.mark.parametrize(
    ("path", "reply", "control", "verdict"),
    [
        ("/v2/health/live", HttpReply(200, ""), NOT_FOUND, Verdict.YES),
        ("/v2/health/live", HttpReply(200, ""), HttpReply(200, ""), Verdict.UNCLEAR),
        ("/v2/health/live", NOT_FOUND, NOT_FOUND, Verdict.NO),
        ("/v2/health/live", HttpReply(503, ""), NOT_FOUND, Verdict.UNCLEAR),
        ("/v2/health/live", HttpReply(0, "refused"), NOT_FOUND, Verdict.UNCLEAR),
        ("/v2", HttpReply(200, '{"name":"a","extensions":[]}'), NOT_FOUND, Verdict.YES),
        ("/v2", HttpReply(200, "garbage"), NOT_FOUND, Verdict.NO),
        ("/v2", HttpReply(200, "[" * 99999), NOT_FOUND, Verdict.NO),
        ("/v2/models/m", HttpReply(200, '{"name":"m","inputs":[]}'), NOT_FOUND, Verdict.YES),
        ("/v1/models/m", HttpReply(200, '{"model_version_status":[]}'), NOT_FOUND, Verdict.YES),
        ("/v1/models/m/metadata", HttpReply(200, '{"metadata":{}}'), NOT_FOUND, Verdict.YES),
        (
            "/grps/v1/health/ready",
            HttpReply(200, '{"status":{"status":"FAILURE"}}'),
            NOT_FOUND,
            Verdict.YES,
        ),
        ("/grps/v1/health/ready", HttpReply(200, '{"status":"ok"}'), NOT_FOUND, Verdict.NO),
        ("/metrics", HttpReply(200, "# TYPE a counter\na 1\n"), NOT_FOUND, Verdict.YES),
    ],
)
def test_an_http_response_is_evaluated_by_its_body_and_the_control(path, reply, control, verdict):
    assert http_finding(QUESTIONS[path], reply, control).verdict is verdict


GRPC = {question.method.rsplit("/", 1)[1]: question for question in grpc_questions()}


@pytest.mark.parametrize(
    ("method", "code", "answer", "verdict"),
    [
        ("ServerLive", "OK", b"\x08\x01", Verdict.YES),
        ("ServerLive", "OK", b"\x12\x01a", Verdict.UNCLEAR),
        ("ServerReady", "OK", b"", Verdict.YES),
        ("CheckLiveness", "OK", b"\x0a\x02\x18\x01", Verdict.YES),
        ("CheckLiveness", "OK", b"", Verdict.UNCLEAR),
        ("ServerLive", "UNIMPLEMENTED", b"", Verdict.NO),
        ("ServerLive", "UNAVAILABLE", b"", Verdict.UNCLEAR),
        ("Check", "OK", b"\x08\x01", Verdict.YES),
    ],
)
def test_a_call_is_evaluated_by_its_code_and_first_byte(method, code, answer, verdict):
    assert grpc_finding(GRPC[method], code, answer).verdict is verdict


def test_requests_for_a_model_need_its_name():
    assert not any("/models/" in question.path for question in http_questions(""))
    assert CONTROL not in QUESTIONS


@pytest.mark.parametrize(
    ("http", "over_grpc", "wanted", "ok"),
    [
        ([Verdict.YES, Verdict.YES], [], "", True),
        ([Verdict.YES, Verdict.UNCLEAR], [], "", True),
        ([Verdict.YES, Verdict.NO], [], "", False),
        ([Verdict.UNCLEAR], [], "", False),
        ([Verdict.NO], [Verdict.YES], "", True),
        ([Verdict.YES], [], "GRPS", False),
        ([Verdict.YES], [], "OpenInference", True),
    ],
)
def test_a_protocol_is_supported_if_one_transport_supports_every_part(http, over_grpc, wanted, ok):
    findings = [Finding("OpenInference", "REST live", verdict, "") for verdict in http]
    findings += [Finding("OpenInference", "gRPC live", verdict, "") for verdict in over_grpc]

    assert report(findings, wanted, PLAIN).ok is ok


METRICS = """\
# TYPE moorage_inferences_total counter
moorage_inferences_total{model="m",outcome="ok",version="1"} 9.0
moorage_inferences_total{model="m",outcome="Cancelled",version="1"} 1.0
moorage_inferences_total{model="other",outcome="ok",version="1"} 5.0
moorage_inference_seconds_sum{model="m",version="1"} 0.5
moorage_inference_seconds_count{model="m",version="1"} 10.0
moorage_inference_seconds_sum{model="m",version="2"} nan
"""


def test_requests_of_other_models_are_ignored():
    assert read_requests(METRICS, "m") == Requests(10, 1, 0.5, 10)
    assert read_requests(METRICS, "idle") == Requests(0, 0, 0.0, 0)
    assert read_requests("# TYPE python_info gauge\npython_info 1\n", "m") is None


@given(st.text())
def test_any_text_of_a_server_can_be_parsed(text):
    read_requests(f"{METRICS}{text}", "m")
    read_requests(f'moorage_inferences_total{{model="m"}} {text}', "m")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("250m", 0.25),
        ("1500000n", 0.0015),
        ("2", 2.0),
        ("64Mi", 64 * 2**20),
        ("1e3", 1000.0),
        ("1.5.2", None),
        ("1GB", None),
        ("", None),
    ],
)
def test_an_invalid_quantity_is_none(text, expected):
    assert read_quantity(text) == expected


def test_top_shows_a_dash_for_an_unknown_value():
    usages = [
        Usage("ns", "iris", "iris-a", 0.25, 64 * 2**20, Requests(10, 1, 0.5, 10)),
        Usage("ns", "iris", "iris-b", None, None, None),
        Usage("ns", "iris", "iris-c", None, None, None, "Terminating"),
    ]
    report_of_two = top(usages, ["no metrics API"], PLAIN, namespaces=False)

    lines = [" ".join(line.split()) for line in report_of_two.text.splitlines()]
    assert lines == [
        "MODEL POD CPU MEMORY REQUESTS FAILED MEAN REASON",
        "iris iris-a 250m 64Mi 10 1 50.0ms -",
        "iris iris-b - - - - - -",
        "iris iris-c - - - - - Terminating",
        "",
        "no metrics API",
    ]
    assert report_of_two.document["replicas"][0]["requests"]["total"] == 10
    assert [each["reason"] for each in report_of_two.document["replicas"]] == [
        "",
        "",
        "Terminating",
    ]


def pod(status, **metadata):
    return {"metadata": {"name": "iris-a", **metadata}, "status": status}


def containers(state, phase="Running"):
    sidecar = {"name": "proxy", "state": {"waiting": {"reason": "PodInitializing"}}}
    return {
        "phase": phase,
        "containerStatuses": [sidecar, {"name": "runtime", "state": state}],
    }


RUNNING = containers({"running": {"startedAt": "2026-01-01T00:00:00Z"}})
UNSCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (pod(RUNNING), ""),
        (pod({"phase": "Running"}), ""),
        (pod(RUNNING, deletionTimestamp="2026-01-01T00:00:00Z"), "Terminating"),
        (pod(containers({"waiting": {"reason": "CrashLoopBackOff"}})), "CrashLoopBackOff"),
        (
            pod(containers({"waiting": {"reason": "PodInitializing"}}, "Pending")),
            "PodInitializing",
        ),
        (pod(containers({"waiting": {}})), "Waiting"),
        (pod(containers({"waiting": None})), "Waiting"),
        (pod(containers({"terminated": {"reason": "OOMKilled", "exitCode": 137}})), "OOMKilled"),
        (pod(containers({"terminated": {"exitCode": 1}}, "Failed")), "Terminated"),
        (pod({"phase": "Failed", "reason": "Evicted"}), "Evicted"),
        (pod({"phase": "Succeeded"}), "Succeeded"),
        (pod({"phase": "Pending", "conditions": [UNSCHEDULED]}), "Unschedulable"),
        (pod({"phase": "Pending", "conditions": [{**UNSCHEDULED, "status": "True"}]}), "Pending"),
        (pod({"phase": "Unknown"}), "Unknown"),
        (pod({}), "Pending"),
        (pod(None), "Pending"),
    ],
)
def test_a_server_that_does_not_run_has_a_reason(found, reason):
    assert why_idle(found, "runtime") == reason
