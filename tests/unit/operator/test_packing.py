"""Values at rest: what goes in comes out, and what is asked of all models needs no unpacking."""

from dataclasses import asdict, replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.answers import ModelInfo, TensorInfo
from moorage_operator.api.smoke_tests import InputTensor, SmokeTest
from moorage_operator.packing import ChildPacker, ModelPacker, Packer
from moorage_operator.planned import ProbeTarget, Way
from moorage_operator.sharing import share_answers, shared
from moorage_operator.smoke import SmokeTask
from moorage_operator.watched import (
    Child,
    ChildObserved,
    DeploymentCondition,
    DeploymentObserved,
    PodObserved,
    RouteObserved,
    RouteParent,
    Scheduled,
)
from support.operator_values import (
    DIGITS,
    NOW,
    ProbeResult,
    model,
    pending,
    pod,
    running,
    unready,
)
from support.probe_targets import target

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)

OBJECT = st.dictionaries(st.text(), JSON)
CONDITIONS = st.builds(
    DeploymentCondition, st.text(), st.none() | st.booleans(), st.text(), updated=st.just(NOW)
)
COUNTS = st.integers(0, 2**31)
OBSERVED = {
    "Deployment": st.builds(
        DeploymentObserved, st.text(), COUNTS, COUNTS, conditions=st.tuples(CONDITIONS)
    ),
    "Service": st.builds(ChildObserved, st.text(), st.text(), st.tuples(CONDITIONS)),
}
CHILDREN = st.sampled_from(sorted(OBSERVED)).flatmap(
    lambda kind: st.builds(
        Child,
        kind=st.just(kind),
        name=st.text(),
        uid=st.text(),
        resource_version=st.text(),
        owner_uid=st.text(),
        applied_hash=st.text(),
        deleting=st.booleans(),
        common_fields=st.binary(),
        observed=OBSERVED[kind],
    )
)


def body(**parts: Any) -> dict[str, Any]:
    metadata = {"name": "m", "namespace": "ns", "uid": "u", "resourceVersion": "7"}
    return {"metadata": metadata, **parts}


@given(st.lists(st.tuples(OBJECT, OBJECT), min_size=1))
def test_a_model_is_the_same_after_its_rest(parts: list[tuple[Any, Any]]) -> None:
    packer = ModelPacker()
    models = [body(spec=spec, status={**extra, "conditions": []}) for spec, extra in parts]

    packed = [packer.pack(model) for model in models]

    assert [packer.unpack(each) for each in packed] == models
    assert {(each.uid, each.resource_version) for each in packed} == {("u", "7")}


def test_managed_fields_are_not_kept() -> None:
    packer, made = ModelPacker(), body(spec={})
    made["metadata"]["managedFields"] = [{"manager": "kubectl"}]

    assert "managedFields" not in packer.unpack(packer.pack(made))["metadata"]
    assert "managedFields" in made["metadata"]


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        (None, ""),
        ({"conditions": [{"type": "Ready", "status": "False"}]}, "False"),
        ({"conditions": [{"type": "Accepted", "status": "True"}]}, ""),
    ],
)
def test_readiness_is_known_without_unpacking(status: Any, ready: str) -> None:
    assert ModelPacker().pack(body(spec={}, status=status)).ready == ready


def test_pods_are_the_same_after_their_rest_and_equal_ones_are_equal_bytes() -> None:
    packer: Packer[PodObserved] = Packer(PodObserved)
    of = model()
    crashed = running(restart_count=3, last_terminated_reason="Error", last_terminated_at=NOW)
    pods = [
        pod("a", of),
        unready("b", of),
        pending("c", of),
        pod("d", of, runtime=crashed, gated=True, gate_open=False, init=(running(),)),
        pod("e", "r2", scheduled=Scheduled(status=False, reason="Unschedulable", since=NOW)),
    ]

    packed = [packer.pack(each) for each in pods]

    assert [packer.unpack(each) for each in packed] == pods
    assert packed == [packer.pack(each) for each in pods]
    assert len(set(packed)) == len(pods)


def test_targets_are_the_same_after_their_rest() -> None:
    packer: Packer[ProbeTarget] = Packer(ProbeTarget)
    test = SmokeTest("one", (InputTensor("x", "FP32", (2,), (1.0, 2.5)),))
    plain = target()
    targets = [
        plain,
        replace(plain, smoke=SmokeTask("d", (test,)), vouched=True),
        replace(plain, others=(Way("OpenInference", "HTTP", 1), Way("GRPS", "GRPC", 2))),
        replace(plain, explained_by=Way("TensorFlowServing", "HTTP", 8501, live_path="/v1")),
    ]

    again = [packer.unpack(packer.pack(each)) for each in targets]

    # fields that no comparison looks at count too
    assert [asdict(each) for each in again] == [asdict(each) for each in targets]


@given(st.lists(CHILDREN, min_size=1, max_size=5))
def test_a_child_is_the_same_after_its_rest(children: list[Child]) -> None:
    packer = ChildPacker()

    packed = [packer.pack(each) for each in children]

    again = [packer.unpack(was.kind, each) for was, each in zip(children, packed, strict=True)]
    assert again == children
    assert [each.uid for each in packed] == [each.uid for each in children]


def test_a_route_keeps_what_its_gateways_say() -> None:
    taken = (DeploymentCondition("Accepted", status=True),)
    route = RouteObserved("u", "h", (), 2, (RouteParent("web", "ns", "http", 2, taken),))
    child = Child("HTTPRoute", "iris", "u", "7", "o", "h", deleting=False,
                  common_fields=b"{}", observed=route)  # fmt: skip
    packer = ChildPacker()

    assert packer.unpack("HTTPRoute", packer.pack(child)) == child


def test_a_value_like_the_first_takes_a_tenth_of_its_bytes() -> None:
    packer: Packer[PodObserved] = Packer(PodObserved)
    first, second = (pod(f"digits-{n}", model()) for n in (1, 2))
    plain = len(msgspec.msgpack.encode(second))

    packer.pack(first)

    assert len(packer.pack(second)) < plain / 10


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
