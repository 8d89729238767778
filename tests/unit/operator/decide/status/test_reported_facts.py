"""The facts that a status reports of replicas, failures, the model, its server and its URLs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from moorage_operator.resources.owned import applied_hash
from moorage_operator.values.answers import AnswerReason, ModelInfo, ServerInfo, TensorInfo
from moorage_operator.values.objects import (
    ContainerObserved,
    IngressObserved,
    LoadBalancerPoint,
    PodObserved,
)
from moorage_operator.values.observed import Observed
from moorage_operator.values.runtimes import RuntimeState, RuntimeUse
from support.operator_values import (
    NOW,
    OIP,
    deployment,
    model,
    no,
    observed,
    pending,
    planned,
    pod,
    record,
    revision,
    running,
    said,
    serving,
    unready,
)

MODEL, TWO = model(), model(replicas=2)
LATER = NOW + timedelta(hours=1)
MINUTE = timedelta(minutes=1)
HOST = "digits.ns.svc.cluster.local"


def written(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_the_whole_status_of_a_model_that_serves() -> None:
    status = dict(planned(MODEL, serving(MODEL)).status)

    assert [(each["type"], each["observedGeneration"]) for each in status.pop("conditions")] == [
        *(("Accepted", 1), ("WorkloadAvailable", 1), ("ProtocolMatched", 1)),
        *(("ModelReady", 1), ("Ready", 1), ("UpToDate", 1)),
    ]
    assert status == {
        "observedGeneration": 1,
        "replicas": 1,
        "selector": "app.kubernetes.io/managed-by=moorage,moorage.dev/model=digits",
        "replicaSummary": "1/1",
        "revisions": {
            "current": revision(MODEL),
            "specHash": MODEL.written.hash,
            "lastGood": revision(MODEL),
        },
        "protocol": {
            "declared": "OpenInference",
            "detected": "OpenInference",
            "evidence": OIP.evidence,
        },
        "endpoints": [
            {"protocol": protocol, "transport": transport, "url": f"{scheme}://{HOST}:{rest}"}
            for protocol, transport, scheme, rest in (
                ("OpenInference", "HTTP", "http", "8000/v2/models/digits/infer"),
                ("OpenInference", "GRPC", "grpc", "8001"),
                ("TensorFlowServing", "HTTP", "http", "8000/v1/models/digits:predict"),
                ("GRPS", "HTTP", "http", "8000/grps/v1/infer/predict?model=digits"),
                ("GRPS", "GRPC", "grpc", "8001"),
            )
        ],
        "model": {
            "name": "digits",
            "platform": "onnx_onnxv1",
            "versions": ["1"],
            "inputs": [{"name": "image", "datatype": "FP32", "shape": [-1, 8, 8]}],
            "outputs": [{"name": "label", "datatype": "INT64", "shape": [-1]}],
            # Another hash would tell users that their model has changed.
            "metadataHash": "94063722c0a1499b",
        },
        "versionSummary": "1",
        "server": {
            "name": "moorage-runtime",
            "version": "1",
            "extensions": ["binary_tensor_data"],
        },
        "replicaStatuses": [
            {
                "pod": "p0",
                "revision": revision(MODEL),
                "ready": True,
                "modelReady": True,
                "restarts": 0,
                "since": "2026-03-04T05:05:37Z",
            }
        ],
        "omittedReplicas": 0,
        "timings": {
            "revision": revision(MODEL),
            "pod": "p0",
            "started": 60_000,
            "modelReady": 30_000,
            "total": 90_000,
        },
    }


# ------------------------------------------------------------------ replicas


def since(*pods: PodObserved, now: datetime = NOW, **facts: Any) -> str:
    """The time since which the first listed replica has been in its state."""
    return planned(MODEL, observed(*pods, **facts), now).status["replicaStatuses"][0]["since"]


def test_a_replica_that_serves_does_so_since_its_pod_is_ready() -> None:
    one = pod("p", MODEL, ready_since=NOW - MINUTE)

    assert since(one, probes=said(one)) == written(NOW - MINUTE)
    # A pod that its kubelet reports ready while the model loads does not serve.
    assert since(one, probes=said(one, no(AnswerReason.LOADING))) == written(NOW)


def test_a_replica_has_its_reason_since_it_was_first_reported() -> None:
    one = unready("p", MODEL)
    loading = observed(one, probes=said(one, no(AnswerReason.LOADING)))
    status = planned(MODEL, loading).status

    same = planned(MODEL, replace(loading, status=status), LATER).status
    failed = said(one, no(AnswerReason.LOAD_FAILED, "bad file"))
    other = planned(MODEL, replace(loading, probes=failed, status=status), LATER).status

    assert same["replicaStatuses"][0]["since"] == written(NOW)
    assert other["replicaStatuses"][0]["since"] == written(LATER)
    assert since(unready("q", MODEL), status=status, now=LATER) == written(LATER)


@pytest.mark.parametrize("time", [written(LATER), "0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_a_time_in_the_future_or_without_meaning_becomes_the_present(time: str) -> None:
    pending = unready("p", MODEL)
    status = planned(MODEL, observed(pending)).status
    status["replicaStatuses"][0]["since"] = time

    assert since(pending, status=status) == written(NOW)


def test_a_replica_without_a_reason_is_in_its_state_since_it_was_first_reported() -> None:
    old = unready("p", MODEL, revision="earlier")
    status = planned(MODEL, observed(old)).status

    assert "reason" not in status["replicaStatuses"][0]
    assert since(old, status=status, now=LATER) == written(NOW)
    with_reason = {**status["replicaStatuses"][0], "reason": "ModelLoading"}
    status = {**status, "replicaStatuses": [with_reason]}
    assert since(old, status=status, now=LATER) == written(LATER)


def test_the_message_of_a_replica_is_short() -> None:
    one = unready("p", MODEL)
    probes = said(one, no(AnswerReason.LOAD_FAILED, "x" * 5000))

    (entry,) = planned(MODEL, observed(one, probes=probes)).status["replicaStatuses"]

    assert len(entry["message"]) == 1023


# ------------------------------------------------------------------ failures


def ended(name: str = "runtime", code: int = 3, at: datetime = NOW, **facts: Any) -> Any:
    """A container that has run and ended before its current state."""
    return ContainerObserved(
        name,
        last_terminated_exit_code=code,
        last_terminated_at=at,
        last_terminated_started_at=at - MINUTE,
        last_terminated_message="some lines\nthe weights are missing\n",
        **facts,
    )


def failure(*pods: PodObserved, **facts: Any) -> Mapping[str, Any] | None:
    return planned(TWO, observed(*pods, **facts), LATER).status.get("lastFailure")


@pytest.mark.parametrize(
    ("init", "runtime", "reported"),
    [
        ((), ended(), ("runtime", 3)),
        ((), ended(code=0), ("runtime", 0)),
        ((ended("fetch", 1),), ContainerObserved("runtime"), ("fetch", 1)),
        ((ended("fetch", 0),), ContainerObserved("runtime"), None),
        ((ended("fetch", 1, NOW - MINUTE),), ended(), ("runtime", 3)),
        ((ended("fetch", 1),), ended(at=NOW - MINUTE), ("fetch", 1)),
        ((), replace(ended(), last_terminated_at=None), None),
        ((), ContainerObserved("runtime"), None),
    ],
)
def test_an_unexpected_exit_of_a_container_is_reported(
    init: tuple[Any, ...], runtime: Any, reported: tuple[str, int] | None
) -> None:
    found = failure(pending("p", TWO, init=init, runtime=runtime))

    assert (found and (found["container"], found["exitCode"])) == reported


def test_a_failure_has_its_reason_its_time_and_its_last_log_lines() -> None:
    killed = replace(ended(code=137), last_terminated_reason="OOMKilled")

    assert failure(pending("p", TWO, runtime=killed)) == {
        "reason": "OOMKilled",
        "pod": "p",
        "container": "runtime",
        "exitCode": 137,
        "message": "some lines\nthe weights are missing",
        "time": written(NOW),
    }


@pytest.mark.parametrize(
    ("first", "second", "reported"),
    [(NOW, NOW + MINUTE, "b"), (NOW + MINUTE, NOW, "a"), (NOW, NOW, "b")],
)
def test_the_latest_failure_is_reported(first: datetime, second: datetime, reported: str) -> None:
    moments = {"a": first, "b": second}
    pods = [pending(name, TWO, runtime=ended(at=at)) for name, at in moments.items()]

    found = failure(*pods)

    assert found
    assert found["pod"] == reported


def test_a_container_that_serves_again_keeps_the_time_at_which_its_failure_was_resolved() -> None:
    again = running(
        restart_count=1,
        last_terminated_exit_code=3,
        last_terminated_at=NOW - MINUTE,
        last_terminated_started_at=NOW - 2 * MINUTE,
    )
    one = pod("p", MODEL, runtime=again)
    seen = observed(one, probes=said(one))

    first = planned(MODEL, seen).status
    second = planned(MODEL, replace(seen, status=first), LATER).status

    assert first["lastFailure"]["resolvedTime"] == written(NOW)
    assert second["lastFailure"] == first["lastFailure"]


# ------------------------------------------------------------------ the runtime


@pytest.mark.parametrize(
    ("is_following", "seen", "reported"),
    [
        (True, observed(pending("p", MODEL)), {"following": True}),
        (True, serving(MODEL), {}),
        (False, observed(pending("p", MODEL)), {}),
        (False, serving(MODEL), {}),
    ],
)
def test_a_model_follows_its_runtime_until_its_rollout_is_complete(
    seen: Observed, reported: Mapping[str, bool], *, is_following: bool
) -> None:
    use = RuntimeUse("triton", 2, "v1:0", "{}", is_following=is_following)

    status = planned(MODEL, replace(seen, runtime=RuntimeState(use))).status

    runtime = {"name": "triton", "generation": 2, "specHash": "v1:0", "content": "{}"}
    assert status["runtime"] == {**runtime, **reported}


# ------------------------------------------------------------------ the model and its server

OTHER = ModelInfo("digits", ("2",), "other", (TensorInfo("x", "FP32", ()),), ())


def test_the_answer_of_a_replica_that_serves_counts_first() -> None:
    first, second = unready("a", TWO), pod("b", TWO)
    others = said(first, model=OTHER, server=ServerInfo("other", "9", ()))

    status = planned(TWO, observed(first, second, probes={**others, **said(second)})).status

    assert (status["versionSummary"], status["server"]["version"]) == ("1", "1")
    alone = planned(TWO, observed(first, probes=others)).status
    assert (alone["versionSummary"], alone["server"]["version"]) == ("2", "9")


def test_a_replica_without_metadata_does_not_hide_that_of_another() -> None:
    first, second = pod("a", TWO), pod("b", TWO)
    silent = said(first, model=None, server=None)

    status = planned(TWO, observed(first, second, probes={**silent, **said(second)})).status

    assert (status["versionSummary"], status["server"]["version"]) == ("1", "1")


def test_the_answer_of_another_revision_does_not_count() -> None:
    new = model(generation=2, replicas=2, runtime={"image": "new:1"})
    old, come = pod("old", TWO), unready("new", new)
    seen = observed(
        old,
        come,
        probes={**said(old), **said(come, model=OTHER)},
        status=planned(TWO, serving(TWO, 2)).status,
        history={revision(TWO): record(TWO)},
        deployment=deployment(revision=revision(new)),
    )

    assert planned(new, seen).status["versionSummary"] == "1"


KNOWN = planned(MODEL, serving(MODEL)).status
LOADING = said(unready("p0", MODEL), no(AnswerReason.LOADING), server=None)
RESTARTED = running(restart_count=1, started=False, ready=False)


@pytest.mark.parametrize(
    ("of", "probes", "is_kept"),
    [
        (pod("p0", MODEL), {}, True),
        (unready("p0", MODEL), {}, True),
        (pod("p0", "earlier"), {}, True),
        (unready("p0", MODEL), LOADING, False),
        (unready("p0", MODEL, runtime=RESTARTED), {}, False),
        (unready("another", MODEL), {}, False),
        (unready("p0", MODEL, revision="earlier"), {}, False),
        (pending("p0", MODEL), {}, False),
    ],
    ids=[
        *("it serves", "it was not polled again", "an earlier one serves"),
        *("it was polled", "it restarted", "another pod", "an earlier one", "it does not run"),
    ],
)
def test_the_metadata_is_kept_while_a_replica_may_still_have_it(
    of: PodObserved, probes: Mapping[str, Any], *, is_kept: bool
) -> None:
    status = planned(MODEL, observed(of, probes=probes, status=KNOWN)).status

    kept = {each: status.get(each) for each in ("model", "versionSummary", "server")}
    if is_kept:
        assert kept == {each: KNOWN[each] for each in kept}
    else:
        assert kept == {"model": {"name": "digits"}, "versionSummary": None, "server": None}


def test_the_metadata_of_a_model_with_another_name_is_not_kept() -> None:
    renamed = model(model={"name": "other"})

    status = planned(renamed, observed(pod("p0", "earlier"), status=KNOWN)).status

    assert status["model"] == {"name": "other"}
    assert "versionSummary" not in status


def test_a_kept_model_without_versions_has_an_empty_summary() -> None:
    before = {**KNOWN, "model": {"name": "digits"}}
    del before["server"]

    status = planned(MODEL, serving(MODEL, probes={}, status=before)).status

    assert (status["model"], status["versionSummary"]) == ({"name": "digits"}, "")
    assert "server" not in status


# ------------------------------------------------------------------ URLs


def test_the_urls_of_an_earlier_revision_are_of_the_protocol_that_it_answers() -> None:
    auto = {"protocol": "Auto", "replicas": 2}
    old, new = (model(**auto, runtime={"image": image}) for image in ("old:1", "new:1"))
    new = replace(new, generation=2)
    status = {
        name: value
        for name, value in planned(old, serving(old, 2)).status.items()
        if name != "protocol"
    }
    one = pod("old", old)
    seen = observed(
        one,
        unready("new", new),
        probes=said(one),
        status=status,
        history={revision(old): record(old)},
        deployment=deployment(revision=revision(new)),
    )

    found = planned(new, seen).status

    assert "detected" not in found["protocol"]
    assert [each["protocol"] for each in found["endpoints"]] == ["OpenInference"]


def test_the_urls_have_the_ports_of_the_service_until_it_is_changed() -> None:
    moved = model(replicas=2, generation=2, runtime={"ports": {"http": 9000, "grpc": 9001}})
    seen = serving(
        moved,
        2,
        status=planned(TWO, serving(TWO, 2)).status,
        history={revision(TWO): record(TWO)},
        deployment=deployment(revision=revision(moved)),
    )

    first = planned(moved, seen).status
    second = planned(moved, replace(seen, status=first)).status

    urls = [[each["url"].split("/")[2] for each in of["endpoints"]] for of in (first, second)]
    assert urls[0][:2] == [f"{HOST}:8000", f"{HOST}:8001"]
    assert urls[1][:2] == [f"{HOST}:9000", f"{HOST}:9001"]


def behind(addresses: Sequence[str]) -> Mapping[str, Any]:
    """The status of a model with an Ingress that has these addresses."""
    of = model(route={"ingress": {}})
    seen = serving(of)
    (ingress,) = (each for each in planned(of, seen).objects if each["kind"] == "Ingress")
    points = tuple(LoadBalancerPoint(each) for each in addresses)
    found = IngressObserved("u", applied_hash(ingress), points=points)
    return planned(
        of, replace(seen, children={**seen.children, ("Ingress", "digits"): found})
    ).status


def test_a_model_has_a_url_and_endpoints_for_clients_outside_the_cluster() -> None:
    status = behind(["192.0.2.7"])

    assert status["url"] == "http://192.0.2.7"
    assert [each["url"] for each in status["externalEndpoints"]] == [
        "http://192.0.2.7/v2/models/digits/infer",
        "http://192.0.2.7/v1/models/digits:predict",
        "http://192.0.2.7/grps/v1/infer/predict?model=digits",
    ]
    assert status["endpoints"][0]["url"].startswith(f"http://{HOST}:8000/")


def test_the_number_of_endpoints_outside_the_cluster_is_limited() -> None:
    status = behind([f"192.0.2.{index}" for index in range(16)])

    assert len(status["externalEndpoints"]) == 32


def test_a_model_without_a_url_has_no_endpoints_outside_the_cluster() -> None:
    assert not {"url", "externalEndpoints"} & behind([]).keys()
