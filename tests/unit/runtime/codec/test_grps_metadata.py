"""GRPS's metadata as YAML, and what its transports ask of a message."""

import numpy as np
import pytest

from moorage_runtime.codec.grps import json_form as grps_json
from moorage_runtime.codec.grps import metadata as grps_metadata
from moorage_runtime.codec.grps.message import (
    OK,
    Blob,
    NestedArray,
    Status,
    Table,
    Tensors,
    Text,
    size_bytes,
)
from moorage_runtime.values.inference import ModelMetadata, ModelStatus, ServerMetadata
from moorage_runtime.values.tensors import Datatype, Tensor, TensorSpec

SERVER = """\
name: n
version: '1'
interface:
  framework: http+grpc
models:
- name: m
  version: '2'
  ready: true
- name: 안
  version: '3'
  ready: false
dag:
  type: sequential
  nodes:
  - name: node-1
    type: model
    model: m-2
"""
EMPTY = """\
name: n
version: '1'
interface:
  framework: http+grpc
models: []
dag:
  type: sequential
  nodes: []
"""
MODEL = """\
name: m
version: '2'
ready: true
inferer_type: onnx
batching: true
inputs:
- name: x
  datatype: FP32
  shape:
  - -1
  - 2
outputs:
- name: y
  datatype: INT8
  shape: []
"""
LOADING = """\
name: m
version: '2'
ready: false
"""


def test_the_metadata_of_the_server():
    server = ServerMetadata("n", "1", ())
    statuses = [ModelStatus("m", "2", "READY"), ModelStatus("안", "3", "FAILED", "why")]
    assert grps_metadata.encode_server(server, statuses, "m-2") == SERVER
    assert grps_metadata.encode_server(server, [], None) == EMPTY


def test_the_metadata_of_a_model():
    inputs = (TensorSpec("x", Datatype.FP32, (-1, 2)),)
    outputs = (TensorSpec("y", Datatype.INT8, ()),)
    metadata = ModelMetadata("m", "2", ("2",), "onnx", inputs, outputs, batching=True)
    assert grps_metadata.encode_model(ModelStatus("m", "2", "READY"), metadata) == MODEL
    assert grps_metadata.encode_model(ModelStatus("m", "2", "LOADING"), None) == LOADING


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (Text("abc"), 3),
        (Blob(b"ab"), 2),
        (Tensors((Tensor("x", Datatype.INT16, np.zeros(3, "<i2")),) * 2), 12),
        (Tensors(()), 0),
        (NestedArray(np.zeros((2, 2), "<f4")), 16),
        (Table({"s_s": {"a": "b", "c": "d"}, "s_d": {"e": 0.5}}), 3),
    ],
)
def test_the_approximate_size_of_data(data, size):
    assert size_bytes(data) == size


@pytest.mark.parametrize("code", [199, 201, 400, 500])
def test_only_200_is_a_success(code):
    assert Status(code, "why").flag == "FAILURE"
    assert OK.flag == "SUCCESS"


@pytest.mark.parametrize(
    ("body", "flag"),
    [
        (b'{"return-ndarray":true}', True),
        (b'{"return-ndarray":1}', False),
        (b'{"return-ndarray":"true"}', False),
        (b'{"other":true}', False),
        (b"[]", False),
        (b"\xff", False),
        (b"", False),
    ],
)
def test_a_flag_is_read_from_any_body(body, flag):
    assert grps_json.decode_flag(body, "return-ndarray") is flag
