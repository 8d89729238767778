"""plan(): the other fields of the status, polls and events; stable output for the same input."""

import copy
import json
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage_operator.api.conditions import ConditionType, Reason, truncated
from moorage_operator.api.v1alpha1 import Protocol
from moorage_operator.values.answers import Answer, AnswerReason, ModelInfo, Spoken, TensorInfo
from moorage_operator.values.objects import ContainerObserved, DeploymentCondition, Scheduled
from moorage_operator.values.observed import Observed, ReferenceState
from moorage_operator.values.plan import PollPace
from moorage_operator.values.runtimes import RuntimeState, RuntimeUse
from moorage_operator.values.smoke import SmokeOutcome, SmokeVerdict
from support.operator_values import (
    NOW,
    YES,
    condition,
    deployment,
    model,
    no,
    observed,
    pending,
    planned,
    pod,
    revision,
    said,
    serving,
    unready,
    verdict,
)

MODEL = model()
LATER = NOW + timedelta(hours=1)


def crashed(at=NOW) -> ContainerObserved:
    return ContainerObserved(
        "runtime",
        restart_count=1,
        waiting_reason="CrashLoopBackOff",
        last_terminated_reason="Error",
        last_terminated_exit_code=3,
        last_terminated_message="the weights are missing",
        last_terminated_started_at=at - timedelta(seconds=2),
        last_terminated_at=at,
    )


@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_the_status_lists_the_first_tensors_and_its_hash_covers_all(side):
    def metadata_of(count, length):
        # {"name": "...", "datatype": "BYTES"} with a name of `length` characters
        tensors = [TensorInfo("x" * length, "BYTES", None) for _ in range(count)]
        probes = said(pod("p", MODEL), model=ModelInfo("digits", **{side: tuple(tensors)}))
        return planned(MODEL, observed(pod("p", MODEL), probes=probes)).status["model"]

    short, fits, cut = metadata_of(256, 64), metadata_of(256, 223), metadata_of(256, 224)

    assert [len(each[side]) for each in (short, fits, cut)] == [256, 256, 255]
    assert cut["metadataHash"] != metadata_of(255, 224)["metadataHash"]


def test_the_status_of_a_serving_model_has_its_metadata():
    status = planned(MODEL, serving(MODEL)).status

    assert status["model"] == {
        "name": "digits",
        "platform": "onnx_onnxv1",
        "versions": ["1"],
        "inputs": [{"name": "image", "datatype": "FP32", "shape": [-1, 8, 8]}],
        "outputs": [{"name": "label", "datatype": "INT64", "shape": [-1]}],
        "metadataHash": status["model"]["metadataHash"],
    }
    assert status["versionSummary"] == "1"
    assert status["server"] == {
        "name": "moorage-runtime",
        "version": "1",
        "extensions": ["binary_tensor_data"],
    }
    assert status["observedGeneration"] == 1
    assert status["revisions"] == {
        "current": revision(MODEL), "specHash": MODEL.written.hash, "lastGood": revision(MODEL),
    }  # fmt: skip
    assert status["replicaStatuses"] == [{
        "pod": "p0", "revision": status["replicaStatuses"][0]["revision"], "ready": True,
        "modelReady": True, "restarts": 0, "since": "2026-03-04T05:05:37Z",
    }]  # fmt: skip


def test_the_last_good_revision_stays_until_another_serves():
    edited = model(generation=2, runtime={"image": "new:1"})
    before = planned(MODEL, serving(MODEL)).status
    rolling = planned(edited, observed(pod("old", MODEL), status=before)).status
    done = planned(edited, serving(edited, status=rolling)).status

    assert "lastGood" not in planned(MODEL, observed()).status["revisions"]
    assert rolling["revisions"] == {
        "current": revision(edited),
        "specHash": edited.written.hash,
        "candidate": revision(edited),
        "lastGood": revision(MODEL),
    }
    assert done["revisions"] == {
        "current": revision(edited), "specHash": edited.written.hash, "lastGood": revision(edited),
    }  # fmt: skip


def test_versions_are_sorted_and_the_summary_is_the_wanted_one():
    of = pod("p", MODEL)
    info = ModelInfo("digits", ("10", "9"), "")
    seen = observed(of, probes=said(of, model=info))
    wanted = model(model={"version": "9"})
    of_wanted = pod("p", wanted)

    plain = planned(MODEL, seen).status
    chosen = planned(wanted, observed(of_wanted, probes=said(of_wanted, model=info))).status

    assert plain["model"]["versions"] == ["9", "10"]
    assert plain["versionSummary"] == "9,10"
    assert chosen["versionSummary"] == "9"


def test_before_the_first_answer_only_the_models_name_is_known():
    status = planned(MODEL, Observed()).status

    assert status["model"] == {"name": "digits"}
    assert "server" not in status
    assert "versionSummary" not in status


def test_a_settled_status_is_a_fixed_point():
    first = planned(MODEL, serving(MODEL))

    again = planned(MODEL, serving(MODEL, status=first.status), now=LATER)

    assert again.status == first.status
    assert again.events == ()
    assert again.requeue_after is None
    assert again.poll is PollPace.STABLE


def test_a_restarted_operator_writes_nothing_before_its_first_poll():
    first = planned(MODEL, serving(MODEL))

    again = planned(MODEL, serving(MODEL, probes={}, status=first.status), now=LATER)

    assert again.status == first.status


def test_a_restarted_operator_keeps_the_last_problem_of_a_model():
    of = unready("p", MODEL)
    bad = no(AnswerReason.LOAD_FAILED, "bad file")
    first = planned(MODEL, observed(of, probes=said(of, bad)))

    again = planned(MODEL, observed(of, status=first.status), now=LATER)

    assert again.status == first.status


def test_a_transition_time_changes_only_with_the_condition_status():
    loading = planned(MODEL, observed(unready("p", MODEL)))
    of = unready("p", MODEL)
    failed = no(AnswerReason.LOAD_FAILED)

    worse = planned(MODEL, observed(of, probes=said(of, failed), status=loading.status), now=LATER)
    good = planned(MODEL, serving(MODEL, status=loading.status), now=LATER)

    assert condition(worse, "Ready")["reason"] == "ModelLoadFailed"
    assert condition(worse, "Ready")["lastTransitionTime"] == "2026-03-04T05:06:07Z"
    assert condition(good, "Ready")["lastTransitionTime"] == "2026-03-04T06:06:07Z"


def test_a_failure_is_kept_with_its_log_and_is_resolved_when_the_model_serves():
    broken = planned(MODEL, observed(unready("p", MODEL, runtime=crashed())))
    resolved = planned(MODEL, serving(MODEL, status=broken.status), now=LATER)
    again = planned(MODEL, serving(MODEL, status=resolved.status), now=LATER + timedelta(hours=1))

    failure = {
        "reason": "CrashLoopBackOff", "pod": "p", "container": "runtime", "exitCode": 3,
        "message": "the weights are missing", "time": "2026-03-04T05:06:07Z",
    }  # fmt: skip
    assert broken.status["lastFailure"] == failure
    assert resolved.status["lastFailure"] == {**failure, "resolvedTime": "2026-03-04T06:06:07Z"}
    assert again.status == resolved.status


def test_a_replica_that_crashes_while_another_serves_is_not_resolved():
    two = model(replicas=2)
    served = planned(two, serving(two, 2)).status
    good, bad = pod("p0", two), unready("p1", two, runtime=crashed())
    seen = observed(good, bad, probes=said(good), status=served)

    plan = planned(two, seen)

    assert verdict(plan) == ("True", "Serving")
    assert plan.status["lastFailure"]["pod"] == "p1"
    assert "resolvedTime" not in plan.status["lastFailure"]


def test_a_newer_failure_replaces_one_that_was_resolved():
    before = planned(MODEL, observed(unready("p", MODEL, runtime=crashed()))).status
    resolved = planned(MODEL, serving(MODEL, status=before)).status
    seen = observed(unready("q", MODEL, runtime=crashed(LATER)), status=resolved)

    failure = planned(MODEL, seen, now=LATER).status["lastFailure"]

    assert failure["pod"] == "q"
    assert "resolvedTime" not in failure


def test_an_older_failure_does_not_replace_a_newer_one():
    newer = planned(MODEL, observed(unready("q", MODEL, runtime=crashed(LATER)))).status
    seen = observed(unready("p", MODEL, runtime=crashed()), status=newer)

    assert planned(MODEL, seen, now=LATER).status["lastFailure"] == newer["lastFailure"]


def test_replicas_that_do_not_serve_come_first_and_the_list_ends_at_32():
    of = model(replicas=40)
    pods = [pod(f"p{index:02}", of) for index in range(39)]
    probes = {uid: result for each in pods for uid, result in said(each).items()}
    bad = pending("z", of, runtime=ContainerObserved("runtime", waiting_reason="ErrImagePull"))

    status = planned(of, observed(*pods, bad, probes=probes)).status

    assert len(status["replicaStatuses"]) == 32
    assert status["replicaStatuses"][0]["pod"] == "z"
    assert status["replicaStatuses"][0]["reason"] == "ImagePullBackOff"
    assert status["omittedReplicas"] == 8
    assert status["replicaSummary"] == "39/40"


def test_only_running_containers_of_this_spec_are_polled():
    of = model(replicas=2, model={"name": "n", "version": "2"}, transport="GRPC")
    pods = (pod("a", of), pending("b", of), pod("c", MODEL), pod("d", of, deleting=True))

    targets = planned(of, observed(*pods)).targets

    assert [target.pod_uid for target in targets] == ["uid-a"]
    target = targets[0]
    assert (target.address, target.way.port, target.way.transport) == ("10.0.0.1", 8001, "GRPC")
    assert (target.model_name, target.model_version) == ("n", "2")
    assert target.way.model_ready_path == ""
    over_http = planned(model(), observed(pod("a", model()))).targets[0]
    assert over_http.way.model_ready_path == "/v2/models/digits/ready"
    assert target.container_id == "containerd://first"
    assert target.timeout_seconds == 2.0


@pytest.mark.parametrize(
    ("answer", "pace"),
    [
        (YES, PollPace.STABLE),
        (no(AnswerReason.LOADING), PollPace.SETTLING),
        (no(AnswerReason.LOAD_FAILED), PollPace.FAILING),
    ],
)
def test_a_model_is_polled_often_while_it_changes(answer, pace):
    of = pod("p", MODEL)

    plan = planned(model(health={"pollIntervalSeconds": 7}), observed(of, probes=said(of, answer)))

    assert plan.poll is pace
    assert plan.poll_interval_seconds == 7.0


def test_lasting_problems_have_an_event():
    of = unready("p", MODEL)
    bad = no(AnswerReason.LOAD_FAILED, "bad file")
    loading = planned(MODEL, observed(of))
    failed = planned(MODEL, observed(of, probes=said(of, bad), status=loading.status))
    same = planned(MODEL, observed(of, probes=said(of, bad), status=failed.status))
    good = planned(MODEL, serving(MODEL, status=failed.status))
    lost = planned(MODEL, observed(of, status=good.status))

    def events_of(plan):
        return [(event.type, event.reason) for event in plan.events]

    assert events_of(loading) == []
    assert events_of(failed) == [("Warning", "ModelLoadFailed")]
    assert "bad file" in failed.events[0].message
    assert events_of(same) == []
    assert events_of(good) == [("Normal", "Serving")]
    assert events_of(lost) == [("Warning", "ModelLoading")]


@pytest.mark.parametrize("length", [10, 1024, 1025, 50000])
def test_a_long_message_keeps_its_head_and_its_tail(length):
    text = "".join(str(index % 10) for index in range(length))

    short = truncated(text)

    assert len(short) <= 1024
    assert (short[:400], short[-400:]) == (text[:400], text[-400:])
    assert truncated(short) == short


# ------------------------------------------------------------------ properties

texts = st.sampled_from(["", "why", "x" * 2000])
moments = st.none() | st.integers(0, 2000).map(lambda seconds: NOW - timedelta(seconds=seconds))
waits = st.sampled_from([
    "", "ContainerCreating", "ErrImagePull", "InvalidImageName", "CrashLoopBackOff",
    "CreateContainerConfigError", "NewInSomeLaterKubernetes",
])  # fmt: skip
containers = st.builds(
    ContainerObserved,
    name=st.just("runtime"),
    container_id=st.sampled_from(["", "c1", "c2"]),
    started=st.booleans(),
    restart_count=st.integers(0, 2),
    waiting_reason=waits,
    waiting_message=texts,
    running_since=moments,
    exit_code=st.none() | st.sampled_from([0, 1, 137]),
    terminated_at=moments,
    terminated_message=texts,
    last_terminated_reason=st.sampled_from(["", "Error", "OOMKilled"]),
    last_terminated_exit_code=st.none() | st.sampled_from([0, 1, 137, 143]),
    last_terminated_started_at=moments,
    last_terminated_at=moments,
    last_terminated_message=texts,
)
answers = st.sampled_from(AnswerReason).map(
    lambda reason: Answer(
        True if reason is AnswerReason.READY else False if reason.name.startswith("MO") else None,
        reason,
        "said",
    )
)
spec_values = st.fixed_dictionaries({}, optional={
    "replicas": st.integers(-1, 3),
    "suspend": st.booleans(),
    "paused": st.booleans(),
    "scaling": st.fixed_dictionaries({
        "minReplicas": st.integers(0, 3), "maxReplicas": st.integers(1, 4),
    }),
    "transport": st.sampled_from(["HTTP", "GRPC", "UDP"]),
    "protocol": st.sampled_from(Protocol).map(str),
    "contract": st.fixed_dictionaries({
        "policy": st.sampled_from(["Warn", "Enforce"]),
        "inputs": st.sampled_from([[], [{"name": "image"}], [{"name": "other"}]]),
    }),
    "smokeTests": st.fixed_dictionaries({
        "policy": st.sampled_from(["Warn", "Enforce"]),
        "tests": st.sampled_from([[], [{"name": "one", "inputs": [
            {"name": "x", "datatype": "FP32", "shape": [], "data": [1]}
        ]}], [{"name": "one", "request": {"path": "/p", "body": {}}, "expect": [
            {"jsonPath": "a[0]", "exists": True}
        ]}]]),
    }),
    "runtime": st.just({"image": "own:1"}),
    "paths": st.just({"ready": "/readyz"}),
    "health": st.fixed_dictionaries({"periodSeconds": st.integers(0, 9)}),
    "podTemplate": st.fixed_dictionaries({"spec": st.dictionaries(
        st.sampled_from(["containers", "volumes", "nodeName", "securityContext"]),
        st.none() | st.text(max_size=3) | st.lists(st.none() | st.just({"name": "runtime"})),
    )}),
})  # fmt: skip


@st.composite
def situations(draw):
    of = model(generation=draw(st.integers(1, 3)), **draw(spec_values))
    pods, probes = [], {}
    for index in range(draw(st.integers(0, 3))):
        each = pod(
            f"p{index}",
            draw(st.sampled_from(["earlier", "", "current"])),
            runtime=draw(containers),
            init=tuple(draw(st.lists(containers, max_size=1))),
            ready=draw(st.booleans()),
            ready_since=draw(moments),
            deleting=draw(st.booleans()),
            phase=draw(st.sampled_from(["Pending", "Running", "Failed"])),
            scheduled=Scheduled(draw(st.none() | st.booleans()), "Unschedulable", draw(texts)),
        )
        if each.revision == "current" and not of.problems:
            each = replace(each, revision=revision(of))
        pods.append(each)
        if draw(st.booleans()):
            probes |= said(
                each,
                draw(answers),
                container_id="c1",
                consecutive_unknown=draw(st.integers(0, 4)),
                spoken=draw(st.none() | st.builds(Spoken, *[texts] * 2, st.just(1), texts)),
                smoke=draw(st.none() | st.builds(
                    SmokeOutcome, st.sampled_from(["old", of.smoke_digest]),
                    st.sampled_from(SmokeVerdict), texts,
                )),
            )  # fmt: skip
    failure = DeploymentCondition("ReplicaFailure", draw(st.none() | st.booleans()), "", "quota")
    references = {
        reference: draw(st.sampled_from(ReferenceState))
        for reference in sorted(planned(of, Observed()).references)
    }
    return of, Observed(
        deployment=draw(st.none() | st.just(deployment(conditions=(failure,)))),
        pods=tuple(pods),
        probes=probes,
        references=references,
    )


@settings(max_examples=300, deadline=None)
@given(situations())
def test_any_observed_state_yields_a_complete_and_stable_plan(situation):
    of, seen = situation
    before = copy.deepcopy(seen)

    plan = planned(of, seen)
    same = planned(of, seen)
    settled = planned(of, replace(seen, status=plan.status), now=LATER)

    assert seen == before
    assert json.dumps(plan.status) == json.dumps(same.status)
    assert json.dumps(plan.objects) == json.dumps(same.objects)
    assert settled.events == ()
    absent = {"Reconciling", "Stalled", "UpdateHeld"}  # the last is only of an InferenceRuntime
    expected = [str(type_) for type_ in ConditionType if type_ not in absent]
    if of.protocol == "None":
        expected.remove("ProtocolMatched")
    if not of.contract.is_compared:
        expected.remove("MetadataMatched")
    if not of.smoke_tests.tests:
        expected.remove("SmokeTestPassed")
    if not of.scaling.is_on or of.problems:
        expected.remove("ScalingActive")
    if not of.route.is_given or of.problems:
        expected.remove("RouteAccepted")
    if not of.paused:
        expected.remove("Paused")
    if not seen.runtime.pending:
        expected.remove("RuntimeUpdatePending")
    assert not (of.paused and plan.objects)
    late = {"Reconciling", "Stalled"}
    types = [item["type"] for item in plan.status["conditions"]]
    assert len(late.intersection(types)) <= 1
    assert [type_ for type_ in types if type_ not in late] == expected
    for item in plan.status["conditions"]:
        assert item["reason"] in set(Reason)
        assert item["observedGeneration"] == of.generation
        assert 0 < len(item["message"]) <= 1024
    again = planned(of, replace(seen, status=settled.status), now=LATER + timedelta(hours=1))
    assert again.status == settled.status


def renamed(status, names):
    """The status with the reasons that another version of the operator has."""
    if isinstance(status, list):
        return [renamed(each, names) for each in status]
    if isinstance(status, dict):
        return {
            key: names.get(value, value) if key == "reason" else renamed(value, names)
            for key, value in status.items()
        }
    return status


LATER_REASONS = {str(reason): f"{reason}InSomeLaterVersion" for reason in Reason}


@settings(deadline=None)
@given(situations())
def test_a_status_with_the_reasons_of_a_later_version_is_read(situation):
    of, seen = situation
    status = renamed(planned(of, seen).status, LATER_REASONS)

    plan = planned(of, replace(seen, probes={}, status=status), now=LATER)

    assert {each["reason"] for each in plan.status["conditions"]} <= set(Reason)


@given(situations())
def test_ready_is_true_only_while_a_pod_serves(situation):
    of, seen = situation

    plan = planned(of, seen)

    if verdict(plan)[0] == "True":
        assert any(item.ready and not item.deleting for item in seen.pods)
    if verdict(plan, "UpToDate")[0] == "True" and of.desired_replicas:
        assert verdict(plan) == ("True", "Serving")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, False),
        ({"protocol": "GRPS"}, False),
        ({"protocol": "GRPS", "runtime": {"image": "grps:1"}}, True),
        ({"protocol": "GRPS", "transport": "GRPC", "runtime": {"image": "grps:1"}}, True),
        ({"protocol": "TensorFlowServing", "runtime": {"image": "tfs:1"}}, False),
    ],
)
def test_only_a_grps_server_of_another_image_is_set_online(spec, expected):
    of = model(**spec)

    assert [each.bring_online for each in planned(of, serving(of)).targets] == [expected]


def test_a_tensor_of_unknown_rank_has_no_shape_in_the_status():
    tensors = (TensorInfo("x", "FP32", None), TensorInfo("y", "FP32", ()))
    of = model()
    one = pod("p", of)
    seen = observed(one, probes=said(one, model=ModelInfo("digits", inputs=tensors)))

    inputs = planned(of, seen).status["model"]["inputs"]

    assert [tensor.get("shape") for tensor in inputs] == [None, []]


def test_a_model_follows_its_runtime_until_it_is_up_to_date():
    following = RuntimeState(RuntimeUse("triton", 2, "v1:0", "{}", is_following=True))
    incomplete, complete = observed(pending("p", MODEL)), serving(MODEL)

    found = [
        planned(MODEL, replace(each, runtime=following)).status for each in (incomplete, complete)
    ]

    assert [condition(each, "UpToDate")["status"] for each in found] == ["False", "True"]
    assert [each["runtime"].get("following") for each in found] == [True, None]
