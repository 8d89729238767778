"""Signatures of a model, and the documents that describe them and its versions."""

import json

import numpy as np
import pytest

from moorage_runtime.codec.tfs import signatures as tfs_signatures
from moorage_runtime.codec.tfs import status as tfs_status
from moorage_runtime.codec.tfs.dtypes import short_name
from moorage_runtime.values.errors import InvalidConfig, InvalidRequest
from moorage_runtime.values.inference import (
    ModelMetadata,
    ModelStatus,
    RequestedOutput,
    Signature,
)
from moorage_runtime.values.tensors import Datatype, Tensor, TensorSpec

X = TensorSpec("x", Datatype.FP32, (-1, 2))
Y = TensorSpec("y", Datatype.BYTES, (-1,))
Z = TensorSpec("z", Datatype.INT8, ())


def model(**signatures):
    return ModelMetadata("m", "v2", ("v2",), "p", (X,), (Y, Z), signatures=signatures)


def bound(*outputs):
    signature = Signature("classify", {"in": "x"}, dict(outputs))
    return tfs_signatures.signatures_of(model(s=signature))["s"]


def test_a_model_without_signatures_has_one_of_its_own_tensors():
    ((name, signature),) = tfs_signatures.signatures_of(model()).items()

    assert (name, signature.name, signature.method) == ("serving_default",) * 2 + ("predict",)
    assert (signature.inputs, signature.outputs) == ({"x": X}, {"y": Y, "z": Z})
    assert tfs_signatures.requested_outputs(signature) == ()


def test_a_declared_signature_has_the_models_tensors_under_its_keys():
    signature = bound(("b", "z"), ("a", "y"))

    assert (signature.name, signature.method, signature.derived) == ("s", "classify", False)
    assert (signature.inputs, signature.outputs) == ({"in": X}, {"b": Z, "a": Y})
    assert tfs_signatures.requested_outputs(signature) == (
        RequestedOutput("z"),
        RequestedOutput("y"),
    )


def test_two_keys_of_the_same_output_request_it_once():
    signature = bound(("a", "y"), ("b", "y"))
    output = Tensor("y", Datatype.BYTES, np.array([b"t"], object))

    assert tfs_signatures.requested_outputs(signature) == (RequestedOutput("y"),)
    found = tfs_signatures.outputs_by_key([output], signature)
    assert list(found) == ["a", "b"]
    assert found["a"] is found["b"] is output


def test_outputs_of_a_derived_signature_have_their_own_names():
    (signature,) = tfs_signatures.signatures_of(model()).values()
    outputs = [Tensor(name, Datatype.INT8, np.zeros(1, "<i1")) for name in ("other", "y")]

    assert list(tfs_signatures.outputs_by_key(outputs, signature)) == ["other", "y"]


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        (
            {"in": "other"},
            {},
            "signatures.s.inputs.in: the model has no tensor 'other': must be one of x",
        ),
        (
            {"in": "x"},
            {"out": "x"},
            "signatures.s.outputs.out: the model has no tensor 'x': must be one of y, z",
        ),
    ],
)
def test_a_signature_of_other_tensors_is_invalid(inputs, outputs, message):
    with pytest.raises(InvalidConfig) as error:
        tfs_signatures.signatures_of(model(s=Signature("predict", inputs, outputs)))
    assert error.value.message == message


def test_a_signature_is_selected_by_name_and_method():
    derived = tfs_signatures.signatures_of(model())
    declared = {"b": bound(), "a": bound()}

    assert tfs_signatures.select_signature(derived, "", "predict").derived
    assert tfs_signatures.select_signature(declared, "a", "classify") is declared["a"]
    with pytest.raises(InvalidRequest) as error:
        tfs_signatures.select_signature(declared, "", "classify")
    assert error.value.message == (
        'Serving signature name: "serving_default" not found in signature def; the model has: a, b'
    )
    with pytest.raises(InvalidRequest) as error:
        tfs_signatures.select_signature({}, "a", "classify")
    assert error.value.message == (
        'Serving signature name: "a" not found in signature def; the model has: none'
    )
    with pytest.raises(InvalidRequest) as error:
        tfs_signatures.select_signature(declared, "a", "regress")
    assert error.value.message == (
        'Expected signature "a" method_name to be tensorflow/serving/regress. '
        "Was: tensorflow/serving/classify"
    )


@pytest.mark.parametrize(
    ("datatype", "name"), [("FP32", "float"), ("BYTES", "string"), ("BF16", "bfloat16")]
)
def test_a_datatype_has_tensorflows_name(datatype, name):
    assert short_name(Datatype(datatype)) == name


def test_the_states_of_versions_are_listed_from_the_highest_number():
    versions = [
        (1, ModelStatus("m", "1", "READY", "ignored")),
        (3, ModelStatus("m", "3", "FAILED", "why")),
        (2, ModelStatus("m", "2", "LOADING")),
        (0, ModelStatus("m", "0", "UNLOADED")),
    ]
    fine = {"error_code": "OK", "error_message": ""}

    assert json.loads(tfs_status.encode_status(versions)) == {
        "model_version_status": [
            {
                "version": "3",
                "state": "END",
                "status": {"error_code": "INTERNAL", "error_message": "why"},
            },
            {"version": "2", "state": "LOADING", "status": fine},
            {"version": "1", "state": "AVAILABLE", "status": fine},
            {"version": "0", "state": "END", "status": fine},
        ]
    }


def test_the_metadata_of_a_version_describes_its_signatures():
    def info(name, dtype, *sizes):
        dims = [{"size": size, "name": ""} for size in sizes]
        shape = {"dim": dims, "unknown_rank": False}
        return {"dtype": dtype, "tensor_shape": shape, "name": name}

    signature = Signature("classify", {"in": "x"}, {"a": "y", "b": "z"})

    assert json.loads(tfs_status.encode_metadata(model(s=signature), 2)) == {
        "model_spec": {"name": "m", "signature_name": "", "version": "2"},
        "metadata": {
            "signature_def": {
                "signature_def": {
                    "s": {
                        "inputs": {"in": info("x", "DT_FLOAT", "-1", "2")},
                        "outputs": {"a": info("y", "DT_STRING", "-1"), "b": info("z", "DT_INT8")},
                        "method_name": "tensorflow/serving/classify",
                        "defaults": {},
                    }
                }
            }
        },
    }
