"""Contracts compared with metadata: differences, policies, disagreeing replicas."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.api.conditions import Reason
from moorage_operator.api.contract import Contract, DeclaredTensor
from moorage_operator.decide.pods.contract import difference, disagreement
from moorage_operator.values.answers import ModelInfo, TensorInfo
from moorage_operator.values.plan import PollPace
from support.operator_values import (
    DIGITS,
    condition,
    model,
    observed,
    planned,
    pod,
    said,
    serving,
    verdict,
)

KEPT = {
    "inputs": [{"name": "image", "datatype": "FP32", "shape": [-1, 8, 8]}],
    "outputs": [{"name": "label", "datatype": "INT64", "shape": [-1]}],
}
BROKEN = {"inputs": [{"name": "image", "datatype": "FP16"}]}


def info(**sides: dict[str, tuple[str, tuple[int, ...] | None]]) -> ModelInfo:
    tensors = {
        side: tuple(TensorInfo(name, *rest) for name, rest in listed.items())
        for side, listed in sides.items()
    }
    return ModelInfo("m", **tensors)


def contract(**sides: dict[str, tuple[str, tuple[int, ...] | None]]) -> Contract:
    tensors = {
        side: tuple(DeclaredTensor(name, *rest) for name, rest in listed.items())
        for side, listed in sides.items()
    }
    return Contract(**tensors)


SERVED = info(
    inputs={"a": ("FP32", (-1, 4)), "b": ("BYTES", (1,))},
    outputs={"y": ("INT64", (-1,)), "z": ("FP32", None)},
)
A, B = {"a": ("FP32", (-1, 4))}, {"b": ("BYTES", (1,))}


@pytest.mark.parametrize(
    ("declared", "reason", "words"),
    [
        (contract(inputs=A | B), None, ""),
        (contract(inputs={"a": ("", None), "b": ("", None)}), None, ""),
        (contract(inputs={"a": ("FP32", (2, 4))} | B), None, ""),
        (contract(outputs={"y": ("INT64", (-1,))}), None, ""),
        (contract(outputs={"z": ("FP32", (1, 2, 3))}), None, ""),
        (contract(inputs=A), Reason.INPUT_MISSING, "input b: the model"),
        (
            contract(inputs=A | B | {"c": ("FP32", None)}),
            Reason.INPUT_MISSING,
            "input c is missing: the model has a, b",
        ),
        (
            contract(outputs={"x": ("", None)}),
            Reason.OUTPUT_MISSING,
            "output x is missing: the model has y, z",
        ),
        (
            contract(inputs={"a": ("FP64", (-1, 4))} | B),
            Reason.DATATYPE_MISMATCH,
            "input a: datatype FP64 declared, FP32 served",
        ),
        (
            contract(inputs={"a": ("FP32", (-1, 5))} | B),
            Reason.SHAPE_MISMATCH,
            "input a: shape [-1, 5] declared, [-1, 4] served",
        ),
        (contract(inputs=A | {"b": ("BYTES", (-1,))}), Reason.SHAPE_MISMATCH, "[-1] declared"),
        (contract(inputs=A | {"b": ("BYTES", (1, 1))}), Reason.SHAPE_MISMATCH, "[1, 1] declared"),
        (contract(outputs={"y": ("INT64", (1,))}), Reason.SHAPE_MISMATCH, "output y: shape [1]"),
    ],
)  # fmt: skip
def test_a_difference_is_described(declared, reason, words):
    found = difference(declared, SERVED)

    assert (found.reason if found else None) is reason
    assert words in (found.message if found else "")


def test_all_differences_are_listed_and_the_first_gives_the_reason():
    declared = contract(inputs={"a": ("FP64", (-1, 5))}, outputs={"x": ("", None)})

    found = difference(declared, SERVED)

    assert found
    assert found.reason is Reason.INPUT_MISSING
    assert [part[:8] for part in found.message.split("; ")] == [
        "input b:", "output x", "input a:", "input a:",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("served", "subject"),
    [
        (None, "the server"),
        (ModelInfo("m"), "the model"),
    ],
)
def test_metadata_without_tensors_is_unsupported(served, subject):
    found = difference(contract(inputs=A), served)

    assert found
    assert found.reason is Reason.METADATA_UNSUPPORTED
    assert found.message.startswith(subject)


def test_unread_metadata_may_have_too_many_tensors():
    found = difference(contract(inputs=A), None)

    assert found
    assert found.message.endswith("at most 256 inputs and outputs, and 64 versions")


def test_a_model_without_outputs_is_compared():
    found = difference(contract(inputs=A, outputs={"y": ("", None)}), info(inputs=A))

    assert found
    assert found.reason is Reason.OUTPUT_MISSING
    assert found.message.startswith("output y ")
    assert found.message.endswith(" none")


def test_every_missing_tensor_is_named():
    found = difference(contract(outputs={"w": ("", None), "x": ("", None)}), SERVED)

    assert found
    assert [part[:8] for part in found.message.split("; ")] == ["output w", "output x"]
    assert found.message.count("the model has y, z") == 2


def test_the_message_names_at_most_64_tensors_of_a_wide_model():
    columns = {f"c{at:03}": ("FP32", (-1, 1)) for at in range(256)}

    assert difference(contract(inputs=columns), info(inputs=columns)) is None
    found = difference(contract(inputs=columns | {"x": ("", None)}), info(inputs=columns))
    assert found
    assert found.message.endswith(", c062, c063, and 192 more")
    exact = dict(list(columns.items())[:64])
    found = difference(contract(inputs=exact | {"x": ("", None)}), info(inputs=exact))
    assert found
    assert found.message.endswith(", c062, c063")


def test_replicas_that_disagree_are_shown_with_all_of_their_tensors():
    two, none = info(inputs=A | {"b": ("BYTES", None)}), info()

    found = disagreement({"q": none, "p": two})

    assert found
    assert found.reason is Reason.REPLICAS_DISAGREE
    assert "pod p has inputs a FP32 [-1, 4], b BYTES of any rank," in found.message
    assert "pod q has none" in found.message


shapes = st.none() | st.lists(st.sampled_from([-1, 1, 2]), max_size=3).map(tuple)
sides = st.dictionaries(
    st.sampled_from("abc"), st.tuples(st.sampled_from(["FP32", "INT8"]), shapes), max_size=3
)


@given(sides, sides)
def test_the_served_tensors_match_an_equal_contract(inputs, outputs):
    served = info(inputs=inputs, outputs=outputs)

    found = difference(contract(inputs=inputs, outputs=outputs), served)

    assert found is None or found.reason is Reason.METADATA_UNSUPPORTED


@given(sides, st.randoms())
def test_the_order_of_tensors_does_not_matter(inputs, random):
    shuffled = list(inputs.items())
    random.shuffle(shuffled)

    assert disagreement({"p": info(inputs=inputs), "q": info(inputs=dict(shuffled))}) is None


# ---------------------------------------------------------------------- in the plan


def test_without_a_contract_there_is_no_condition():
    for spec in ({}, {"contract": {"policy": "Ignore", **BROKEN}}, {"contract": {}}):
        of = model(**spec)
        types = [item["type"] for item in planned(of, serving(of)).status["conditions"]]
        assert "MetadataMatched" not in types


@pytest.mark.parametrize("policy", ["Warn", "Enforce"])
def test_a_contract_that_is_kept_leaves_the_model_ready(policy):
    of = model(contract={"policy": policy, **KEPT})

    plan = planned(of, serving(of))

    assert verdict(plan, "MetadataMatched") == ("True", "Matched")
    assert verdict(plan) == ("True", "Serving")


def test_a_server_that_is_repaired_keeps_the_contract_again():
    of = model(contract=KEPT)
    wrong = replace(DIGITS, inputs=())
    one = pod("p0", of)
    status = planned(of, observed(one, probes=said(one, model=wrong))).status
    assert verdict(status, "MetadataMatched") == ("False", "InputMissing")

    plan = planned(of, serving(of, status=status))

    assert verdict(plan, "MetadataMatched") == ("True", "Matched")


def test_warn_reports_once_without_affecting_ready():
    of = model(contract=BROKEN)

    plan = planned(of, serving(of))
    again = planned(of, serving(of, status=plan.status))

    assert verdict(plan, "MetadataMatched") == ("False", "DatatypeMismatch")
    assert verdict(plan) == ("True", "Serving")
    assert "reason" not in plan.status["replicaStatuses"][0]
    assert {event.reason for event in plan.events} == {"Serving", "DatatypeMismatch"}
    assert again.events == ()


def test_enforce_prevents_ready_and_is_reported_at_the_replica():
    of = model(contract={"policy": "Enforce", **BROKEN})

    plan = planned(of, serving(of))

    assert verdict(plan) == ("False", "DatatypeMismatch")
    assert verdict(plan, "ModelReady") == ("True", "AllReplicasReady")
    assert plan.status["replicaSummary"] == "0/1"
    assert plan.status["replicaStatuses"][0]["reason"] == "DatatypeMismatch"
    assert plan.poll is PollPace.STABLE
    assert [event.reason for event in plan.events] == ["DatatypeMismatch"]
    words = condition(plan, "Ready")["message"]
    assert "pod p0: input image: datatype FP16 declared, FP32 served" in words


def test_enforce_applies_after_an_edit_of_a_serving_model():
    before = model()
    served = planned(before, serving(before)).status
    of = model(generation=2, contract={"policy": "Enforce", **BROKEN})

    plan = planned(of, serving(of, status=served))

    assert verdict(plan) == ("False", "DatatypeMismatch")
    assert verdict(plan, "UpToDate")[0] == "False"


def test_an_earlier_revision_that_serves_keeps_it_ready():
    of = model(contract={"policy": "Enforce", **BROKEN})
    old, new = pod("a", "earlier"), pod("b", of)
    status = {"revisions": {"lastGood": "earlier"}}

    plan = planned(of, observed(old, new, probes=said(new), status=status))

    assert verdict(plan) == ("True", "ServingPreviousRevision")


@pytest.mark.parametrize(("policy", "ready"), [("Warn", "True"), ("Enforce", "False")])
def test_a_server_without_metadata_cannot_keep_a_contract(policy, ready):
    of = model(contract={"policy": policy, **KEPT})
    one = pod("p", of)

    plan = planned(of, observed(one, probes=said(one, model=None, described=True)))

    assert verdict(plan, "MetadataMatched") == ("Unknown", "MetadataUnsupported")
    assert verdict(plan)[0] == ready


def test_missing_metadata_is_awaited():
    of = model(contract={"policy": "Enforce", **KEPT})
    one = pod("p", of)

    plan = planned(of, observed(one, probes=said(one, model=None)))

    assert verdict(plan, "MetadataMatched") == ("Unknown", "AwaitingMetadata")
    assert verdict(plan) == ("False", "AwaitingMetadata")


@pytest.mark.parametrize(("policy", "ready"), [("Warn", "True"), ("Enforce", "False")])
def test_both_disagreeing_replicas_are_listed(policy, ready):
    of = model(replicas=2, contract={"policy": policy, "inputs": KEPT["inputs"]})
    first, second = pod("a", of), pod("b", of)
    other = replace(DIGITS, outputs=(TensorInfo("label", "INT32", (-1,)),))
    facts = observed(first, second, probes={**said(first), **said(second, model=other)})

    plan = planned(of, facts)

    assert verdict(plan, "MetadataMatched") == ("False", "ReplicasDisagree")
    words = condition(plan, "MetadataMatched")["message"]
    assert "pod a has outputs label INT64 [-1]" in words
    assert "pod b has label INT32 [-1]" in words
    assert verdict(plan)[0] == ready


@pytest.mark.parametrize("policy", ["Warn", "Enforce"])
@pytest.mark.parametrize("tensors", [KEPT, BROKEN], ids=["kept", "broken"])
def test_a_restarted_operator_writes_nothing(policy, tensors):
    of = model(contract={"policy": policy, **tensors})
    written = planned(of, serving(of)).status

    restarted = planned(of, serving(of, probes={}, status=written))

    assert restarted.status == written
    assert restarted.events == ()
