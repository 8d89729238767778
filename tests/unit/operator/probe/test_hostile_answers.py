"""Answers that are expensive to parse are rejected early, and control characters are escaped."""

import random
import struct
from typing import Any

import pytest

from moorage_operator.api.smoke_tests import ExpectedTensor, SmokeTest
from moorage_operator.probe.protocols import grps_metadata, metadata, tensorflow_metadata
from moorage_operator.probe.protocols._generated import grps_pb2, oip_pb2, repository_pb2
from moorage_operator.probe.reading import elements, json_text, wire_budget, yaml_text
from moorage_operator.probe.reading.cost import counted, spending
from moorage_operator.probe.reading.elements import Unreadable
from moorage_operator.probe.reading.json_text import NotJson
from moorage_operator.probe.reading.wire_budget import TooManyFields
from moorage_operator.probe.reading.yaml_text import NotYaml
from moorage_operator.probe.transport.http_client import Reply
from moorage_operator.values.smoke import mismatch
from moorage_operator.values.words import printable, quoted, word

MEBIBYTE = 1 << 20
OVERRIDE = "\u202e"


@pytest.mark.parametrize("unit", [b"[],", b"{},", b"1,", b'"",', b'{"a":[1]},'])
def test_json_with_too_many_values_is_not_decoded(unit: bytes) -> None:
    body = b"[" + unit * (MEBIBYTE // len(unit)) + b"0]"

    with pytest.raises(NotJson, match="too many values"):
        json_text.decode(body)


def test_an_index_of_ten_thousand_models_is_decoded() -> None:
    entry = b'{"name":"model-1","version":"1","state":"READY","reason":""}'

    found = json_text.decode(b"[" + b",".join([entry] * 10_000) + b"]")

    assert isinstance(found, list)
    assert len(found) == 10_000


def test_a_reply_is_decoded_once() -> None:
    reply = Reply(503, b'{"ready":false,"error":"no"}')

    assert reply.document is reply.document
    assert reply.error == "no"


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x]\nb: *a",
        "a: &a x",
        "b: *unknown",
        "a: " + "[" * 17 + "]" * 17,
        "- a\n" * 5000,
        "[a]: b",
        "a: [",
        "x" * (64 << 10) + "x",
    ],
    ids=["alias", "anchor", "unknown", "deep", "long", "odd key", "cut", "large"],
)
def test_expensive_yaml_is_rejected(text: str) -> None:
    with pytest.raises(NotYaml):
        yaml_text.decode(text)


def test_yaml_is_decoded_to_dicts_lists_and_strings() -> None:
    text = "name: iris\nversion: 1.10\nready: true\ninputs:\n- {name: x, shape: [-1, 4]}\nnone:\n"

    assert yaml_text.decode(text) == {
        "name": "iris",
        "version": "1.10",
        "ready": "true",
        "inputs": [{"name": "x", "shape": ["-1", "4"]}],
        "none": "",
    }


class Unprintable(list[Any]):
    """A value that must not be formatted."""

    def __repr__(self) -> str:
        raise AssertionError("it was written out")

    __str__ = __repr__


@pytest.mark.parametrize("where", ["state", "version", "status"])
def test_a_tensorflow_state_is_not_formatted_before_its_type_is_checked(where: str) -> None:
    entry: dict[str, Any] = {"version": "1", "state": "AVAILABLE", "status": {}}
    entry[where] = Unprintable()
    if where == "status":
        entry[where] = {"error_code": Unprintable(), "error_message": Unprintable()}

    (found,) = tensorflow_metadata.version_statuses({"model_version_status": [entry]}) or ()

    assert found.state in {"AVAILABLE", ""}


def test_an_invalid_shape_is_not_formatted() -> None:
    with pytest.raises(metadata.NotMetadata):
        metadata.tensor("x", "FP32", [Unprintable()])


@pytest.mark.parametrize("value", [None, True, 1.5, [], {}, 10**20])
def test_other_values_are_not_converted_to_text(value: object) -> None:
    assert word(value) == ""


class Counted(list[Any]):
    """A list that counts how often it is iterated."""

    walks = 0

    def __iter__(self) -> Any:
        Counted.walks += 1
        return super().__iter__()


def test_nested_lists_are_visited_at_most_twice() -> None:
    value = Counted([1])
    for _ in range(20):
        value = Counted([value, 2])
    Counted.walks = 0

    assert len(elements.flat(value)) == 21
    assert Counted.walks <= 2 * 21


def test_a_tensor_with_too_many_elements_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="at most"):
        elements.unpacked("UINT8", bytes(elements.ELEMENT_LIMIT + 1))
    with pytest.raises(Unreadable, match="at most"):
        elements.unpacked("BF16", bytes(2 * elements.ELEMENT_LIMIT + 2))
    with pytest.raises(Unreadable, match="more than"):
        elements.unpacked("BYTES", bytes(4 * elements.TEXT_LIMIT + 4))


@pytest.mark.parametrize(
    ("message", "unit"),
    [
        (oip_pb2.ModelInferResponse, b"\x2a\x00"),
        (oip_pb2.ModelInferResponse, b"\x32\x00"),
        (oip_pb2.ModelMetadataResponse, b"\x22\x00"),
        (repository_pb2.RepositoryIndexResponse, b"\x0a\x00"),
    ],
)
def test_a_message_with_too_many_fields_is_not_parsed(message: Any, unit: bytes) -> None:
    with pytest.raises(TooManyFields):
        wire_budget.check(unit * MEBIBYTE, message.DESCRIPTOR)


def test_fields_of_submessages_count() -> None:
    message = grps_pb2.GrpsMessage()
    for _ in range(5):
        tensor = message.gtensors.tensors.add(name="y")
        tensor.flat_string.extend([""] * (wire_budget.FIELD_LIMIT // 4))

    with pytest.raises(TooManyFields):
        wire_budget.check(message.SerializeToString(), message.DESCRIPTOR)


def test_a_large_message_of_few_fields_passes() -> None:
    answer = oip_pb2.ModelInferResponse(raw_output_contents=[bytes(MEBIBYTE)])
    answer.outputs.add(name="y", datatype="FP32", shape=[512, 512])

    wire_budget.check(answer.SerializeToString(), answer.DESCRIPTOR)


def test_arbitrary_bytes_are_counted_or_rejected() -> None:
    numbers = random.Random(7)
    for _ in range(50):
        data = numbers.randbytes(wire_budget.FREE_BYTES + 100)
        try:
            wire_budget.check(data, oip_pb2.ModelInferResponse.DESCRIPTOR)
        except TooManyFields:
            continue


def test_bf16_of_an_odd_size_is_unreadable() -> None:
    assert elements.unpacked("BF16", struct.pack("<f", 1.5)[2:]) == (1.5,)
    with pytest.raises(Unreadable):
        elements.unpacked("BF16", b"\x80\x3f\x00")


def test_control_and_bidirectional_characters_of_metadata_are_escaped() -> None:
    name = f"x{OVERRIDE}\x1b[31m\x00\ud800"
    escaped = "x\\u202e\\x1b[31m\\x00\\ud800"

    tensor = metadata.tensor(name, name, [1])
    server = metadata.server(name, name, [name])
    model = metadata.model(name, [name], name, (tensor,), ())

    assert (tensor.name, tensor.datatype) == (escaped, escaped)
    assert (server.name, server.version, server.extensions) == (escaped, escaped, (escaped,))
    assert (model.name, model.versions, model.platform) == (escaped, (escaped,), escaped)


def test_names_that_are_printable_are_kept() -> None:
    assert printable("größe 量 ⟨x⟩") == "größe 量 ⟨x⟩"


def test_a_yaml_name_is_escaped() -> None:
    found = grps_metadata.read_model(f'name: iris\nversion: "1\\u202e"\nready: [{"[" * 5}', "iris")
    assert found.info is None
    found = grps_metadata.read_model('name: iris\nversion: "1\\u202e"', "iris")
    assert found.version == "1\\u202e"


def test_output_names_of_a_failed_smoke_test_are_escaped() -> None:
    test = SmokeTest("one", (), (ExpectedTensor("y", (1,)),))

    message = mismatch(test, {f"z{OVERRIDE}": (1,), "\x1b": (2,)})

    assert message == "output y is missing: the answer has \\x1b, z\\u202e"


def test_quoted_words_are_one_printable_line() -> None:
    assert quoted(f"a\n\x00b{OVERRIDE}c") == "a b c"
    assert len(quoted("x" * MEBIBYTE)) == 300


def test_parsing_within_a_block_is_counted() -> None:
    with counted() as cost:
        spending(sum, range(1_000_000))
    before = cost.seconds

    spending(sum, range(1_000_000))

    assert cost.seconds == before > 0
