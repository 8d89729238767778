"""A model.yaml is untrusted: any content gives a value or a reason."""

import contextlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.repository.contents import config, yaml_text
from moorage_runtime.values.errors import InvalidConfig

BOMB = "a: &a [x, x]\n" + "".join(
    f"{name}: &{name} [*{before}, *{before}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("default_version: 2026-02-30", "'2026-02-30' is not a valid timestamp"),
        ("default_version: 2026-02-28", "must be a string or null, not a date"),
        ("[" * 2000, "more than 32 levels"),
        ("[" * 33 + "]" * 33, "column 33: it has more than 32 levels"),
        ("{a: " * 2000, "more than 32 levels"),
        ("- " * 2000, "more than 32 levels"),
        ("- 1\n" * 20_000, "line 20000, column 3: it has more than 32 levels or 20000 values"),
        (BOMB, "aliases (*name) are not supported"),
        ("a: 1\nb: [*a]", "line 2, column 5: aliases (*name) are not supported: repeat"),
        ("a\0b", "model.yaml is not valid YAML: it contains a character that YAML"),
        ('platform: "\\ud800"', "half of a surrogate pair"),
        ("onnx: {threads: " + "9" * 401 + "}", "column 17: a number has more than 400 digits"),
        ("timeout_seconds: 1." + "0" * 399, "column 18: a number has more than 400 digits"),
        ("onnx: {threads: 0x" + "f" * 40 + "}", "onnx.threads"),
        ("onnx: {threads: -1}", "onnx.threads"),
        ("parameters: {a: " + "1:" * 100_000 + "1}", "a number has more than 400 digits"),
        ("parameters: {a: !!int [" + "1," * 500 + "]}", "expected a scalar node"),
        ("parameters: {a: 2026-02-28T99:00:00Z}", "is not a valid timestamp"),
        ("parameters: {a: !!timestamp x}", "is not a valid timestamp"),
        ("parameters: {a: !!int x}", "is not a valid int"),
        ("parameters: {a: !!bool x}", "is not a valid bool"),
        ("version_numbers: {a: 99999999999999999999}", "version_numbers"),
        ("inputs: [{name: x, datatype: FP32, shape: [99999999999999999999]}]", "shape[0]"),
        ("!!python/object:os.system {}", "could not determine a constructor"),
        ("#" * 262_145, "model.yaml is not valid YAML: the file has 262145 bytes"),
        ("? [1]\n: 2", "found unhashable key"),
        ("1: 2", "a key must be a string"),
    ],
    ids=lambda value: value[:24],
)
def test_an_invalid_value_is_refused_with_a_reason(text, expected):
    with pytest.raises(InvalidConfig) as caught:
        config.parse(text.encode())

    assert expected in caught.value.message
    assert len(caught.value.message) < 1000


@pytest.mark.parametrize("text", [b"a: \xff", b"\xff\xfe\x00"])
def test_bytes_that_are_not_text_are_refused(text):
    with pytest.raises(InvalidConfig, match=r"is not valid YAML: the text is not UTF-8$"):
        config.parse(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{a: {b: {c: [[[[1]]]]}}}", {"a": {"b": {"c": [[[[1]]]]}}}),
        ("[" * 32 + "]" * 32, json.loads("[" * 32 + "]" * 32)),
        ("[" + "[1]," * 100 + "]", [[1]] * 100),
        ("[" + "1," * 19_999 + "]", [1] * 19_999),
        ("#" * 262_144, None),
        ("9" * 400, int("9" * 400)),
        ("1." + "0" * 398, 1.0),
        ("9" * 401 + "a", "9" * 401 + "a"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_text_up_to_the_limits_is_read(text, expected):
    assert yaml_text.read(text.encode()) == expected


@given(st.text(st.sampled_from("[]{}:,-&*!|>'\"\\ \n\tab1.~?#%@`0x")) | st.binary(max_size=200))
def test_any_text_is_a_configuration_or_a_reason(text):
    data = text if isinstance(text, bytes) else text.encode()
    with contextlib.suppress(InvalidConfig):
        config.parse(data)


@pytest.mark.parametrize("unit", ["[", "{a: ", "- ", "a: 1\n", "1:", "&a ", "!a ", '"\\'])
def test_parsing_time_is_not_quadratic_in_the_text(unit):
    def seconds(count: int) -> float:
        started = time.process_time()
        with pytest.raises(InvalidConfig):
            config.parse((unit * count + "\nunknown: [").encode())
        return time.process_time() - started

    shorter = min(seconds(4_000) for _ in range(3))
    longer = min(seconds(16_000) for _ in range(3))

    # four times the text; quadratic would be 16 times, and small values are noise
    assert longer < 10 * shorter + 0.05
