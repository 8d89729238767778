"""Decoders of untrusted answers: their limits, and what is said beyond them."""

import asyncio
import threading
import time

import pytest
from google.protobuf.descriptor import Descriptor

from moorage_operator.probe.protocols._generated import grps_pb2, oip_pb2, repository_pb2
from moorage_operator.probe.reading import json_text, wire_budget, yaml_text
from moorage_operator.probe.reading.aside import aside
from moorage_operator.probe.reading.cost import counted, spending
from moorage_operator.probe.reading.json_text import NotJson
from moorage_operator.probe.reading.wire_budget import TooManyFields
from moorage_operator.probe.reading.yaml_text import NotYaml

INFER = oip_pb2.ModelInferResponse.DESCRIPTOR
EMPTY_OUTPUT = b"\x2a\x00"  # an output without any field

# ---------------------------------------------------------------------- JSON


@pytest.mark.parametrize("unit", [b"0", b'""'])
def test_json_has_at_most_100_000_commas(unit: bytes) -> None:
    units = b",".join([unit] * 100_001)

    assert json_text.decode(b"[" + units + b"]")
    with pytest.raises(NotJson, match=r"^the body has too many values$"):
        json_text.decode(b"[" + units + b",0]")


def test_a_caller_may_allow_fewer_commas() -> None:
    assert json_text.decode(b"[1,2,3]", value_limit=2) == [1, 2, 3]
    with pytest.raises(NotJson, match="too many values"):
        json_text.decode(b"[1,2,3]", value_limit=1)


@pytest.mark.parametrize("unit", [b"[]", b"{}"])
def test_json_has_at_most_20_000_lists_and_objects(unit: bytes) -> None:
    units = b",".join([unit] * 19_999)

    assert json_text.decode(b"[" + units + b"]")
    with pytest.raises(NotJson, match=r"^the body has too many values$"):
        json_text.decode(b"[" + units + b"," + unit + b"]")


@pytest.mark.parametrize("data", [b"", b"<html>", b'"\x80"', b"[" * 10_000, b"NaN"])
def test_something_else_is_not_json(data: bytes) -> None:
    with pytest.raises(NotJson, match=r"^the body is not JSON$"):
        json_text.decode(data)


# ---------------------------------------------------------------------- YAML


def test_yaml_has_at_most_64_kibi_characters() -> None:
    longest = "x" * (64 << 10)

    assert yaml_text.decode(longest) == longest
    with pytest.raises(NotYaml):
        yaml_text.decode(f"{longest}x")


def test_yaml_has_at_most_4096_nodes() -> None:
    assert yaml_text.decode("- a\n" * 4095) == ["a"] * 4095
    with pytest.raises(NotYaml):
        yaml_text.decode("- a\n" * 4096)


def test_yaml_has_at_most_16_levels_below_the_first() -> None:
    found = yaml_text.decode("[" * 16 + "a" + "]" * 16)
    for _ in range(16):
        (found,) = found if isinstance(found, list) else ()

    assert found == "a"
    with pytest.raises(NotYaml):
        yaml_text.decode("[" * 17 + "a" + "]" * 17)


def test_empty_yaml_has_no_document() -> None:
    assert yaml_text.decode("") is None
    assert yaml_text.decode("# nothing\n") is None


# ---------------------------------------------------------------------- protobuf


# A number of two bytes, eight bytes, four bytes, and a text of 300 bytes.
EACH_KIND = (
    b"\x08\x96\x01"
    + (b"\x11" + b"\xff" * 8)
    + (b"\x15" + b"\xff" * 4)
    + (b"\x0a\xac\x02" + b"\xff" * 300)
    + (b"\x18" + b"\xff" * 9 + b"\x01")
)


def test_a_message_has_at_most_20_000_fields_of_any_kind() -> None:
    wire_budget.check(EACH_KIND + EMPTY_OUTPUT * 19_995, INFER)
    with pytest.raises(TooManyFields, match=r"^more than 20000 fields$"):
        wire_budget.check(EACH_KIND + EMPTY_OUTPUT * 19_996, INFER)


def test_a_message_of_four_kibibytes_is_not_counted() -> None:
    group = b"\x0b"

    wire_budget.check(group * 4096, INFER)
    with pytest.raises(TooManyFields, match=r"^unsupported wire type 3$"):
        wire_budget.check(group * 4097, INFER)


def test_a_field_that_ends_early_is_reported() -> None:
    with pytest.raises(TooManyFields, match=r"^a field is truncated$"):
        wire_budget.check(EMPTY_OUTPUT * 2048 + b"\x08", INFER)


def test_a_number_has_at_most_ten_bytes() -> None:
    with pytest.raises(TooManyFields, match=r"^a number has more than ten bytes$"):
        wire_budget.check(b"\x08" + b"\xff" * 10 + b"\x01" + EMPTY_OUTPUT * 2048, INFER)


def test_no_message_contains_itself() -> None:
    """Otherwise counting would need a limit on the depth."""

    def walk(message: Descriptor, above: tuple[str, ...]) -> None:
        assert message.full_name not in above
        for field in message.fields:
            if field.message_type:
                walk(field.message_type, (*above, message.full_name))

    for module in (grps_pb2, oip_pb2, repository_pb2):
        for message in module.DESCRIPTOR.message_types_by_name.values():
            walk(message, ())


# ---------------------------------------------------------------------- cost


def test_a_reading_gets_all_of_its_arguments() -> None:
    assert spending(int, "11", base=2) == 3


def test_the_cost_of_all_readings_in_a_block_is_added() -> None:
    before = time.thread_time()
    with counted() as cost:
        spending(sum, range(1_000_000))
        first = cost.seconds
        spending(sum, range(10))
        both = cost.seconds
    elapsed = time.thread_time() - before

    assert 0 < first < both <= elapsed


@pytest.mark.parametrize(("size", "is_aside"), [(16 << 10, False), ((16 << 10) + 1, True)])
async def test_a_large_answer_is_read_in_a_thread(size: int, is_aside: bool) -> None:
    thread = await aside(size, threading.current_thread)

    assert (thread is not threading.main_thread()) is is_aside
    assert await aside(size, int, "11", base=2) == 3


@pytest.mark.parametrize("size", [1, 1 << 20])
async def test_the_cost_of_an_answer_is_counted_wherever_it_is_read(size: int) -> None:
    with counted() as cost:
        await aside(size, sum, range(1_000_000))

    assert cost.seconds > 0


async def test_large_answers_are_read_one_at_a_time() -> None:
    all_wait = threading.Event()

    def thread() -> int:
        assert all_wait.wait(30)
        return threading.get_ident()

    readings = [asyncio.ensure_future(aside(1 << 20, thread)) for _ in range(3)]
    asyncio.get_running_loop().call_soon(all_wait.set)

    assert len(set(await asyncio.gather(*readings))) == 1
