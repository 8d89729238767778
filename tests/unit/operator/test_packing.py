"""Models at rest: what goes in comes out, and what is asked of all of them needs no unpacking."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.answers import ModelInfo, TensorInfo
from moorage_operator.packing import pack_model, unpack_model
from moorage_operator.sharing import share_answers, shared
from support.operator_values import DIGITS, NOW, ProbeResult

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def body(**parts: Any) -> dict[str, Any]:
    metadata = {"name": "m", "namespace": "ns", "uid": "u", "resourceVersion": "7"}
    return {"metadata": metadata, **parts}


@given(st.dictionaries(st.text(), JSON), st.dictionaries(st.text(), JSON))
def test_a_model_is_the_same_after_its_rest(spec: Any, extra: Any) -> None:
    status = {**extra, "conditions": []}

    packed = pack_model(body(spec=spec, status=status))

    assert unpack_model(packed) == body(spec=spec, status=status)
    assert (packed.uid, packed.resource_version) == ("u", "7")


def test_managed_fields_are_not_kept() -> None:
    made = body(spec={})
    made["metadata"]["managedFields"] = [{"manager": "kubectl"}]

    assert "managedFields" not in unpack_model(pack_model(made))["metadata"]


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        (None, ""),
        ({"conditions": [{"type": "Ready", "status": "False"}]}, "False"),
        ({"conditions": [{"type": "Accepted", "status": "True"}]}, ""),
    ],
)
def test_readiness_is_known_without_unpacking(status: Any, ready: str) -> None:
    assert pack_model(body(spec={}, status=status)).ready == ready


def test_equal_values_are_one() -> None:
    first, second = (shared(bytes([1, 2, number - number])) for number in (3, 4))

    assert first is second


def test_results_that_say_the_same_share_what_they_say() -> None:
    def result(uid: str) -> ProbeResult:
        tensors = (TensorInfo(DIGITS.inputs[0].name, "FP32", (-1, 8, 8)),)
        made = ProbeResult(uid, f"c-{uid}", NOW, model=ModelInfo("digits", ("1",), "p", tensors))
        return share_answers(made)

    one, two = result("1"), result("2")

    assert (one.pod_uid, two.pod_uid) == ("1", "2")
    assert one.model is two.model
