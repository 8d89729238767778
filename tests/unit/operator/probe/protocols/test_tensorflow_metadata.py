"""Model status and signatures of TensorFlow Serving: what is read, and the verdict."""

from typing import Any

import pytest

from moorage_operator.probe.protocols.tensorflow_metadata import (
    VersionStatus,
    available,
    judged,
    model_of,
    version_statuses,
)
from moorage_operator.values.answers import Answer, AnswerReason, ModelInfo, TensorInfo
from support.probe_targets import tensorflow_target

AVAILABLE = VersionStatus("1", "AVAILABLE")
LOADING = VersionStatus("2", "LOADING")
FAILED = VersionStatus("3", "END", "no such op")
BROKEN = VersionStatus("4", "AVAILABLE", "out of memory")


# ---------------------------------------------------------------------- status


def read(**entry: Any) -> VersionStatus:
    (found,) = version_statuses({"model_version_status": [entry]}) or ()
    return found


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"version": "1", "state": "AVAILABLE", "status": {}}, AVAILABLE),
        ({"version": 1, "state": 30, "status": {"error_code": "OK"}}, AVAILABLE),
        ({"version": 1, "state": 30, "status": {"error_code": 0}}, AVAILABLE),
        ({"version": "2", "state": 20}, LOADING),
        ({"version": "2", "state": 77}, VersionStatus("2", "UNKNOWN")),
        ({"version": "2", "state": None, "status": "OK"}, VersionStatus("2", "")),
        (
            {
                "version": "3",
                "state": 50,
                "status": {"error_code": 13, "error_message": "no such\nop"},
            },
            FAILED,
        ),
        (
            {"version": "3", "state": "END", "status": {"error_code": "INTERNAL"}},
            VersionStatus("3", "END", "INTERNAL"),
        ),
        (
            {"version": "3", "state": "END", "status": {"error_code": []}},
            VersionStatus("3", "END", "unknown error"),
        ),
        (
            {"version": "x" * 21, "state": "y\x00" * 20},
            VersionStatus("x" * 20, "y y y y y y y y y y "),
        ),
    ],
)
def test_a_version_is_read(entry: dict[str, Any], expected: VersionStatus) -> None:
    assert read(**entry) == expected


@pytest.mark.parametrize("document", [{}, {"model_version_status": {}}])
def test_a_document_without_a_list_is_no_status(document: dict[str, Any]) -> None:
    assert version_statuses(document) is None


def test_the_first_64_entries_are_read() -> None:
    entries = [{"version": at, "state": 30} for at in range(65)]

    found = version_statuses({"model_version_status": ["odd", *entries]})

    assert found == tuple(VersionStatus(str(at), "AVAILABLE") for at in range(63))


@pytest.mark.parametrize(
    ("wanted", "statuses", "reason", "message"),
    [
        ("", [FAILED, LOADING, AVAILABLE], AnswerReason.READY, ""),
        ("1", [LOADING, AVAILABLE], AnswerReason.READY, ""),
        ("", [FAILED, LOADING], AnswerReason.LOADING, "version 2 is in state LOADING"),
        ("3", [LOADING, FAILED], AnswerReason.LOAD_FAILED, "version 3 failed: no such op"),
        ("", [BROKEN], AnswerReason.LOAD_FAILED, "version 4 failed: out of memory"),
        (
            "",
            [VersionStatus("5", "END"), VersionStatus("6", "UNLOADING")],
            AnswerReason.NOT_READY,
            "version 5 is in state END",
        ),
        ("", [], AnswerReason.MODEL_NOT_FOUND, "the server lists no version of model 'iris'"),
        (
            "7",
            [AVAILABLE, LOADING],
            AnswerReason.VERSION_NOT_FOUND,
            "the server has versions 1, 2 of model 'iris'",
        ),
    ],
)
def test_the_states_of_the_wanted_versions_decide(
    wanted: str, statuses: list[VersionStatus], reason: AnswerReason, message: str
) -> None:
    target = tensorflow_target("http://h:1", model_version=wanted)

    is_ready = reason is AnswerReason.READY
    assert judged(target, statuses) == Answer(verdict=is_ready, reason=reason, message=message)


def test_a_version_with_an_error_serves_no_requests() -> None:
    assert available([AVAILABLE, LOADING, FAILED, BROKEN]) == ["1"]


# ---------------------------------------------------------------------- signatures


def model(signatures: Any) -> ModelInfo | None:
    document = {"metadata": {"signature_def": {"signature_def": signatures}}}
    return model_of(document, "iris", ["1"])


def tensors(dtype: Any = "DT_FLOAT", **shape: Any) -> dict[str, Any]:
    return {"x": {"dtype": dtype, "tensor_shape": shape}}


def test_the_default_signature_is_preferred_and_the_first_by_name_used_otherwise() -> None:
    of = {name: {"inputs": {name: {"dtype": "DT_INT8"}}} for name in ("b", "serving_default", "a")}

    chosen = model(of)
    del of["serving_default"]
    first = model(of)

    assert chosen == ModelInfo("iris", ("1",), "", (TensorInfo("serving_default", "INT8", ()),))
    assert first == ModelInfo("iris", ("1",), "", (TensorInfo("a", "INT8", ()),))


def test_inputs_and_outputs_are_read_in_the_order_of_their_names() -> None:
    of = {"b": {"dtype": "DT_HALF"}, "a": {"dtype": "DT_STRING"}}

    assert model({"s": {"inputs": of, "outputs": tensors()}}) == ModelInfo(
        "iris",
        ("1",),
        "",
        (TensorInfo("a", "BYTES", ()), TensorInfo("b", "FP16", ())),
        (TensorInfo("x", "FP32", ()),),
    )


@pytest.mark.parametrize(
    ("given", "datatype", "shape"),
    [
        (tensors(dim=[{"size": "-1"}, {"size": 3}, {}]), "FP32", (-1, 3, 0)),
        (tensors(unknown_rank=True, dim=[{"size": 1}]), "FP32", None),
        (tensors(unknown_rank=False), "FP32", ()),
        (tensors("DT_COMPLEX64"), "DT_COMPLEX64", ()),
        ({"x": {"dtype": "DT_BOOL"}}, "BOOL", ()),
    ],
)
def test_a_tensor_is_read(given: Any, datatype: str, shape: tuple[int, ...] | None) -> None:
    found = model({"s": {"inputs": given}})

    assert found is not None
    assert found.inputs == (TensorInfo("x", datatype, shape),)


def test_256_tensors_are_read() -> None:
    of = {str(at): {"dtype": "DT_INT8"} for at in range(256)}

    found = model({"s": {"inputs": of}})

    assert found is not None
    assert len(found.inputs) == 256
    assert model({"s": {"inputs": {**of, "more": {"dtype": "DT_INT8"}}}}) is None


@pytest.mark.parametrize(
    "signatures",
    [
        None,
        {},
        {"s": []},
        {"s": {"inputs": []}} | {"t": 1, "a": {"inputs": ["x"]}},
        {"s": {"outputs": {"x": "FP32"}}},
        {"s": {"inputs": {"x": {"dtype": 1}}}},
        {"s": {"inputs": {"x": {"dtype": []}}}},
        {"s": {"inputs": {"x": {}}}},
        {"s": {"inputs": tensors(dim=["1.5"])}},
        {"s": {"inputs": tensors(dim=5.5)}},
        {"s": {"inputs": {"x": {"dtype": "DT_INT8", "tensor_shape": "x"}}}},
        {"s": {"inputs": {"x" * 257: {"dtype": "DT_INT8"}}}},
    ],
)
def test_invalid_signatures_are_no_metadata(signatures: Any) -> None:
    assert model(signatures) is None


@pytest.mark.parametrize("document", [{}, {"metadata": []}, {"metadata": {"signature_def": 1}}])
def test_a_document_without_signatures_is_no_metadata(document: dict[str, Any]) -> None:
    assert model_of(document, "iris", []) is None
