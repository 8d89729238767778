"""The generated message classes: up to date, and out of other libraries' way."""

import importlib.util
import pathlib

import pytest
from google.protobuf import descriptor_pool

from moorage_runtime._generated import grps_pb2, health_pb2, oip_pb2

SCRIPT = pathlib.Path(__file__).parents[3] / "runtime" / "proto" / "generate.py"


@pytest.fixture
def generate():
    spec = importlib.util.spec_from_file_location("generate_protobuf", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_classes_are_what_the_proto_files_give(generate):
    assert generate.outdated() == []


def test_a_changed_proto_file_is_noticed(generate, tmp_path, monkeypatch):
    for path in SCRIPT.parent.glob("*.proto"):
        text = path.read_text()
        (tmp_path / path.name).write_text(text.replace("bool live = 1;", "bool live = 2;"))
    monkeypatch.setattr(generate, "PROTO", tmp_path)
    assert generate.outdated() == ["oip_pb2.py"]


@pytest.mark.parametrize(
    "message", [oip_pb2.ModelInferRequest, health_pb2.HealthCheckRequest, grps_pb2.GrpsMessage]
)
def test_names_do_not_take_the_place_of_other_clients_messages(message):
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName(message.DESCRIPTOR.full_name)
