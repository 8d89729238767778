"""Bytes cut, lengthened, mixed and made up: every frontend answers with its protocol's words."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.targets import TARGETS, seeds

NAMES = sorted(TARGETS)
# One long body says no more than a short one does about where it may be cut.
LONGEST_CUT = 600
BOUNDED = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("name", NAMES)
def test_there_are_seeds_that_are_answered(name):
    assert len(seeds(name)) >= 3


@pytest.mark.parametrize("name", NAMES)
def test_the_kept_corpus_is_answered(name):
    kept = sorted((Path(__file__).parent / "corpus" / name).iterdir())

    assert kept
    for path in kept:
        TARGETS[name](path.read_bytes())


@pytest.mark.parametrize("name", NAMES)
def test_every_truncation_is_answered(name):
    for seed in seeds(name):
        for end in range(min(len(seed), LONGEST_CUT) + 1):
            TARGETS[name](seed[:end])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "tail", [b"\0", b" ", b"}", b"]", b"\xff", b"x" * 100, b"{}", b"\x08\x01"]
)
def test_every_seed_with_more_behind_it_is_answered(name, tail):
    for seed in seeds(name):
        TARGETS[name](seed + tail)


@pytest.mark.parametrize("name", NAMES)
@BOUNDED
@given(data=st.data())
def test_arbitrary_bytes_are_answered(name, data):
    TARGETS[name](data.draw(st.binary(max_size=300)))


@pytest.mark.parametrize("name", NAMES)
@BOUNDED
@given(data=st.data())
def test_a_seed_with_some_bytes_exchanged_is_answered(name, data):
    seed = data.draw(st.sampled_from(seeds(name)))
    start = data.draw(st.integers(0, len(seed)))
    gone = data.draw(st.integers(0, 8))
    new = data.draw(
        st.one_of(
            st.binary(max_size=8),
            st.sampled_from(
                [
                    b"null",
                    b"true",
                    b"-1",
                    b"1e999",
                    b"NaN",
                    b"18446744073709551616",
                    b"9" * 400,
                    b'"\\ud800"',
                    b"[" * 120,
                    b"{}",
                    b"[]",
                    b'""',
                ]
            ),
        )
    )
    TARGETS[name](seed[:start] + new + seed[start + gone :])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(
            [
                "inputs", "outputs", "parameters", "id", "name", "shape", "datatype", "data",
                "binary_data", "binary_data_size", "instances", "signature_name", "examples",
                "context", "x", "s", "b64", "gtensors", "tensors", "ndarray", "gmap", "str_data",
                "bin_data", "dtype", "flat_float32", "flat_string", "s_s", "s_b", "s_i64", "model",
            ]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=20,
)  # fmt: skip


@pytest.mark.parametrize(
    "name", [name for name in NAMES if not name.endswith(("proto", "native"))]
)
@BOUNDED
@given(data=st.data())
def test_documents_of_the_protocols_words_are_answered(name, data):
    choice = data.draw(st.binary(min_size=1, max_size=1))
    body = json.dumps(data.draw(JSON)).encode()
    size = len(body).to_bytes(4, "little")[:2] if name == "oip_binary" else b""
    TARGETS[name](choice + size + body)
