"""A model.yaml is untrusted: any content gives a value or a reason."""

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.repository.contents import config
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
        ("{a: " * 2000, "more than 32 levels"),
        ("- " * 2000, "more than 32 levels"),
        ("- 1\n" * 30_000, "20000 values"),
        (BOMB, "aliases (*name) are not supported"),
        ("a: &a [*a]", "aliases (*name) are not supported"),
        ("a\0b", "model.yaml is not valid YAML: it contains a character that YAML"),
        ('platform: "\\ud800"', "half of a surrogate pair"),
        ("onnx: {threads: " + "9" * 5000 + "}", "is not a valid int"),
        ("onnx: {threads: 0x" + "f" * 40 + "}", "onnx.threads"),
        ("onnx: {threads: -1}", "onnx.threads"),
        ("parameters: {a: " + "1:" * 100_000 + "1}", "is not a valid int"),
        ("parameters: {a: 2026-02-28T99:00:00Z}", "is not a valid timestamp"),
        ("parameters: {a: !!timestamp x}", "is not a valid timestamp"),
        ("parameters: {a: !!int x}", "is not a valid int"),
        ("parameters: {a: !!bool x}", "is not a valid bool"),
        ("version_numbers: {a: 99999999999999999999}", "version_numbers"),
        ("inputs: [{name: x, datatype: FP32, shape: [99999999999999999999]}]", "shape[0]"),
        ("!!python/object:os.system {}", "could not determine a constructor"),
        ("x" * 300_000, "model.yaml is not valid YAML: the file has 300000 bytes"),
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


def test_realistic_depth_is_accepted():
    text = "parameters: {a: {b: {c: [[[[1]]]]}}}"

    assert config.parse(text.encode()).parameters == {"a": {"b": {"c": [[[[1]]]]}}}


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
