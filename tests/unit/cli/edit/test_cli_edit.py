"""The patches of promote, abort, restart, retry, scale, pause, resume and rollback."""

import base64
import json
import zlib
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from moorage_cli.edit import verbs
from moorage_cli.edit.model import Resource
from moorage_cli.edit.rollback import KeptSpec, kept_specs, rollback
from moorage_cli.printing.failures import Failure

NOW = datetime(2026, 3, 4, 5, 6, 7, 250_000, tzinfo=UTC)
STEPS = [{"weight": 10}, {"weight": 50}]
CANARY = {"strategy": "Canary", "canary": {"steps": STEPS}}
ROLLING = {"current": "new", "candidate": "new", "lastGood": "old"}
COMPLETE = {"current": "old", "lastGood": "old"}


def iris(
    revisions: dict[str, Any],
    spec: dict[str, Any] | None = None,
    *,
    observed: int = 3,
    **status: Any,
) -> Resource:
    return Resource(
        {
            "metadata": {"name": "iris", "resourceVersion": "7", "generation": 3},
            "spec": {"model": {"uri": "pvc://models/iris"}, **(spec or {})},
            "status": {"observedGeneration": observed, "revisions": revisions, **status},
        }
    )


def merged(spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": "7"}, "spec": spec}


@pytest.mark.parametrize(
    ("given", "promoted"), [("", "new"), ("new", "new"), ("new/2", "new/2"), ("new/02", "new/2")]
)
def test_a_promotion_names_the_candidate(given: str, promoted: str) -> None:
    edit = verbs.promote(iris(ROLLING, {"rollout": CANARY}), given)

    assert edit.patch == merged({"rollout": {"promote": promoted}})
    assert edit.pinned == promoted


def test_a_promotion_takes_back_an_abort_that_the_operator_has_not_carried_out() -> None:
    model = iris(ROLLING, {"paused": True, "rollout": {**CANARY, "abort": "new"}})

    edit = verbs.promote(model)

    assert edit.patch == merged({"rollout": {"promote": "new", "abort": None}})


@pytest.mark.parametrize(
    ("model", "given", "facts"),
    [
        (iris(COMPLETE, {"rollout": CANARY}), "", ["no rollout is in progress", "old"]),
        (iris(ROLLING, {"rollout": CANARY}), "newer", ["newer", "the candidate is new"]),
        (iris(ROLLING, {"rollout": CANARY}), "new/3", ["'3'", "from 1 to 2"]),
        (iris(ROLLING, {"rollout": CANARY}), "new/x", ["'x'"]),
        (iris(ROLLING, {"rollout": CANARY}), "new/", ["''"]),
        (iris(ROLLING), "", ["strategy RollingUpdate"]),
        (iris(ROLLING, {"rollout": CANARY}, observed=2), "", ["generation 3", "again"]),
        (
            iris({**COMPLETE, "current": "new", "rejected": {"revision": "new"}}),
            "",
            ["new was given up"],
        ),
        (iris({}), "", ["no rollout is in progress"]),
    ],
)
def test_what_cannot_be_promoted_is_refused(model: Resource, given: str, facts: list[str]) -> None:
    with pytest.raises(Failure) as failed:
        verbs.promote(model, given)

    assert all(fact in str(failed.value) for fact in facts)


@pytest.mark.parametrize(
    "revisions",
    [ROLLING, {"current": "new", "lastGood": "old", "rejected": {"revision": "new"}}],
    ids=["in progress", "paused after its failure"],
)
def test_an_abort_names_the_revision_and_the_one_that_runs_instead(
    revisions: dict[str, Any],
) -> None:
    edit = verbs.abort(iris(revisions))

    assert edit.patch == merged({"rollout": {"abort": "new"}})
    assert "old runs instead" in edit.done


@pytest.mark.parametrize(
    ("model", "given", "facts"),
    [
        (iris(COMPLETE), "", ["no rollout is in progress"]),
        (iris({"current": "new", "candidate": "new"}), "", ["new is the first one"]),
        (iris(ROLLING), "old", ["old is not rolled out", "new"]),
        (iris(ROLLING, observed=2), "", ["generation 3"]),
    ],
)
def test_what_cannot_be_aborted_is_refused(model: Resource, given: str, facts: list[str]) -> None:
    with pytest.raises(Failure) as failed:
        verbs.abort(model, given)

    assert all(fact in str(failed.value) for fact in facts)


def test_a_restart_always_has_another_time() -> None:
    first = verbs.restart(iris(COMPLETE), NOW).patch
    rollout = {"restartedAt": "2026-03-04T05:06:07Z"}
    second = verbs.restart(iris(COMPLETE, {"rollout": rollout}), NOW).patch

    assert first == merged({"rollout": rollout})
    assert second == merged({"rollout": {"restartedAt": "2026-03-04T05:06:07.250000Z"}})


def test_a_pause_and_its_end_are_patched_once() -> None:
    paused, free = iris(COMPLETE, {"paused": True}), iris(COMPLETE)

    assert verbs.pause(free).patch == merged({"paused": True})
    assert verbs.pause(paused).patch is None
    assert verbs.resume(paused).patch == merged({"paused": False})
    assert verbs.resume(free).patch is None


# ------------------------------------------------------------------ rollback


def kept(revision: str, spec: dict[str, Any], version: object = 1) -> KeptSpec:
    text = json.dumps({"version": version, "spec": spec})
    return KeptSpec(revision, "2026-03-04T05:06:07Z", text)


OLD = {"model": {"uri": "pvc://models/iris"}, "health": {"timeoutSeconds": 4}}
LIVE = {
    "replicas": 4,
    "paused": False,
    "protocol": "OpenInference",
    "model": {"uri": "pvc://models/iris-2", "imageVolume": "Auto"},
    "health": {"timeoutSeconds": 4, "periodSeconds": 5, "failureThreshold": 3},
    "contract": {"policy": "Warn"},
    "nodeSelector": {"disk": "ssd"},
    "rollout": {"strategy": "Recreate"},
}


def test_a_rollback_restores_each_field_that_differs() -> None:
    edit = rollback(iris(ROLLING, LIVE), [kept("old", OLD)])

    assert edit.patch == [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": "/spec/model", "value": {"uri": "pvc://models/iris"}},
        {"op": "remove", "path": "/spec/nodeSelector"},
    ]


def test_a_rollback_removes_an_abort_of_the_revision_that_it_restores() -> None:
    aborted, other = (
        iris(ROLLING, {**LIVE, "rollout": {"abort": name}}) for name in ("old", "new")
    )
    removal = {"op": "remove", "path": "/spec/rollout/abort"}

    patches = [rollback(each, [kept("old", OLD)]).patch for each in (aborted, other)]

    assert [removal in (patch or []) for patch in patches] == [True, False]


def test_a_null_of_a_pod_template_is_restored() -> None:
    template = {"spec": {"securityContext": {"runAsNonRoot": None}}}

    edit = rollback(iris(ROLLING), [kept("old", {**OLD, "podTemplate": template})])

    assert isinstance(edit.patch, list)
    assert {"op": "add", "path": "/spec/podTemplate", "value": template} in edit.patch


@pytest.mark.parametrize(
    ("spec", "status", "old"),
    [
        ({}, {}, {**OLD, "runtime": {"name": "triton", "args": ["--a"]}}),
        ({"model": {"uri": "pvc://a"}}, {"runtime": {"name": "triton"}}, OLD),
    ],
    ids=["kept with a runtime", "a runtime by default"],
)
def test_a_spec_with_fields_of_a_runtime_is_not_restored(spec, status, old) -> None:
    model = iris(ROLLING, {**LIVE, **spec}, **status)

    with pytest.raises(Failure, match="the InferenceRuntime triton, which may have changed"):
        rollback(model, [kept("old", old)])


def test_a_spec_that_is_there_already_needs_no_patch() -> None:
    live = {**LIVE, "model": {"uri": "pvc://models/iris"}}
    del live["nodeSelector"]

    edit = rollback(iris(ROLLING, live), [kept("old", OLD)])

    assert edit.patch is None
    assert "already" in edit.done


def test_after_a_complete_rollout_the_revision_before_with_another_spec_is_restored() -> None:
    restarted = kept("restarted", {"model": {"uri": "pvc://models/iris"}})
    now = kept("old", {"model": {"uri": "pvc://models/iris"}})
    specs = [now, restarted, kept("older", OLD), kept("oldest", LIVE)]

    edit = rollback(iris(COMPLETE), specs)

    assert (edit.pinned, edit.patch) == ("older", rollback(iris(COMPLETE), specs, "older").patch)
    assert edit.patch
    assert edit.done == (
        "has the spec of revision older again instead of old: it ran before and was created "
        "2026-03-04T05:06:07Z"
    )


def test_a_rollback_says_which_revision_it_replaces() -> None:
    specs = [kept("old", OLD)]

    assert rollback(iris(ROLLING, LIVE), specs).done == (
        "has the spec of revision old again instead of new: the last one that served"
    )
    assert rollback(iris(ROLLING, LIVE), specs, "old").done == (
        "has the spec of revision old again instead of new"
    )
    assert rollback(iris(ROLLING, LIVE, observed=2), specs, "old").done == (
        "has the spec of revision old again"
    )
    assert rollback(iris(COMPLETE, LIVE), specs, "old").done == (
        "has the spec of revision old again"
    )


def of_day(day: int, revision: str, spec: dict[str, Any]) -> KeptSpec:
    return replace(kept(revision, spec), created=f"2026-01-0{day}T00:00:00Z")


NOW_OLD = {"model": {"uri": "pvc://models/iris"}}


@pytest.mark.parametrize("day", [2, 3])  # two can be created within the same second
def test_a_second_rollback_does_not_lead_back_to_the_revision_that_failed(day: int) -> None:
    model = iris({**COMPLETE, "unproven": ["broken"]})
    specs = [of_day(day, "old", NOW_OLD), of_day(3, "broken", LIVE), of_day(1, "older", OLD)]

    with pytest.raises(Failure) as failed:
        rollback(model, specs)

    said = str(failed.value)
    assert "revision broken, which ran before revision old, was given up" in said
    assert "name a revision with --to" in said
    assert "broken of 2026-01-03T00:00:00Z, older of 2026-01-01T00:00:00Z" in said
    assert rollback(model, specs, "broken").patch
    assert rollback(model, specs, "older").patch
    assert rollback(iris(COMPLETE), specs).pinned == "broken"


def test_a_rollback_passes_over_an_older_revision_that_never_served() -> None:
    model = iris({**COMPLETE, "unproven": ["broken"]})
    specs = [of_day(3, "old", NOW_OLD), of_day(2, "broken", LIVE), of_day(1, "older", OLD)]

    edit = rollback(model, specs)

    assert edit.pinned == "older"
    assert edit.done.endswith("2026-01-01T00:00:00Z; broken ran later, but did not serve")


def test_without_a_revision_that_served_the_others_are_listed() -> None:
    model = iris({**COMPLETE, "unproven": ["broken"]})

    with pytest.raises(
        Failure, match=r"no earlier revision with another spec that served.*broken of 2026"
    ):
        rollback(model, [of_day(3, "old", NOW_OLD), of_day(2, "broken", LIVE)])


def test_a_newer_revision_with_the_same_spec_is_skipped_even_if_it_did_not_serve() -> None:
    model = iris({**COMPLETE, "unproven": ["restarted"]})
    specs = [of_day(2, "old", NOW_OLD), of_day(3, "restarted", NOW_OLD), of_day(1, "older", OLD)]

    edit = rollback(model, specs)

    assert edit.pinned == "older"
    assert "restarted" not in edit.done


@pytest.mark.parametrize("unproven", [None, "old", {"a": 1}, [1, None]])
def test_a_list_of_another_type_counts_as_absent(unproven: object) -> None:
    assert iris({**COMPLETE, "unproven": unproven}).unproven == frozenset()


@pytest.mark.parametrize(
    ("others", "facts"),
    [([], ["no earlier revision"]), ([kept("b", {"model": {"uri": "pvc://models/iris"}})], ["b"])],
    ids=["no other revision", "only the same spec"],
)
def test_without_a_revision_with_another_spec_nothing_is_restored(others, facts) -> None:
    now = kept("old", {"model": {"uri": "pvc://models/iris"}})

    with pytest.raises(Failure, match="apply the earlier manifest") as failed:
        rollback(iris(COMPLETE), [now, *others])

    assert all(fact in str(failed.value) for fact in facts)


def test_a_previous_revision_that_cannot_be_restored_is_not_skipped() -> None:
    specs = [kept("old", {}), kept("older", {**OLD, "later": 1}), kept("oldest", OLD)]

    with pytest.raises(Failure, match=r"spec\.later"):
        rollback(iris(COMPLETE), specs)


@pytest.mark.parametrize(
    ("model", "specs", "to", "facts"),
    [
        (iris({}), [], "", ["no revision has served"]),
        (iris(ROLLING), [], "", ["revision old is not kept", "no other revision is kept"]),
        (iris(ROLLING), [kept("old", OLD)], "gone", ["gone is not kept", "old of 2026"]),
        (iris(ROLLING), [kept("old", OLD, 2)], "", ["format 2", "knows format 1"]),
        (iris(ROLLING), [KeptSpec("old", "", "{")], "", ["damaged"]),
        (iris(ROLLING), [KeptSpec("old", "", "#")], "", ["damaged"]),
        (iris(ROLLING), [KeptSpec("old", "", '{"version": 1}')], "", ["damaged"]),
        (iris(ROLLING), [kept("old", {**OLD, "later": 1})], "", ["spec.later", "unknown field"]),
        (iris(ROLLING, observed=2), [kept("old", OLD)], "", ["generation 3"]),
    ],
)
def test_what_cannot_be_restored_exactly_is_refused(
    model: Resource, specs: list[KeptSpec], to: str, facts: list[str]
) -> None:
    with pytest.raises(Failure) as failed:
        rollback(model, specs, to)

    assert all(fact in str(failed.value) for fact in facts)


def test_specs_are_read_from_both_kinds_of_objects() -> None:
    def body(name: str, revision: str, created: str, **more: Any) -> dict[str, Any]:
        labels = {"moorage.dev/revision": revision} if revision else {}
        metadata = {"name": name, "labels": labels, "creationTimestamp": created}
        return {"metadata": {**metadata, **more.pop("metadata", {})}, **more}

    def annotated(text: str) -> dict[str, Any]:
        return {"metadata": {"annotations": {"moorage.dev/spec": text}}}

    found = kept_specs(
        [
            body("a", "one", "2026-01-02T00:00:00Z", **annotated("edited by hand")),
            body("b", "one", "2026-01-01T00:00:00Z", **annotated("first")),
            body("c", "two", "2026-01-03T00:00:00Z", data={"spec": "kept"}),
            body("d", "", "2026-01-03T00:00:00Z", **annotated("of another")),
            body("e", "three", "2026-01-03T00:00:00Z"),
        ]
    )

    assert [(each.revision, each.text) for each in found] == [("two", "kept"), ("one", "first")]


def replica_set(revision: str, day: int, owner: str, number: int) -> dict[str, Any]:
    annotations = {"moorage.dev/spec": revision, "deployment.kubernetes.io/revision": str(number)}
    return {
        "metadata": {
            "labels": {"moorage.dev/revision": revision},
            "annotations": annotations,
            "creationTimestamp": f"2026-01-0{day}T00:00:00Z",
            "ownerReferences": [{"kind": "Deployment", "uid": owner}],
        }
    }


@pytest.mark.parametrize(
    ("objects", "order"),
    [
        # b failed, so a became the template again before c
        ([("a", 1, "x", 3), ("b", 2, "x", 2), ("c", 3, "x", 4)], ["c", "a", "b"]),
        ([("a", 1, "x", 12), ("b", 2, "x", 9)], ["a", "b"]),
        # a Deployment for each revision
        ([("a", 1, "x", 7), ("c", 3, "z", 1), ("b", 2, "y", 1)], ["c", "b", "a"]),
        # somebody edited the Deployment of a
        ([("a", 1, "x", 1), ("b", 2, "x", 2), ("a", 3, "x", 3)], ["a", "b"]),
    ],
    ids=["returned to", "by number", "blue and green", "edited"],
)
def test_kept_specs_are_in_the_order_in_which_the_revisions_ran(objects, order) -> None:
    found = kept_specs([replica_set(*each) for each in objects])

    assert [each.revision for each in found] == order


def test_a_compressed_spec_is_read() -> None:
    text = json.dumps({"version": 1, "spec": OLD}).encode()
    packed = KeptSpec("old", "", base64.b64encode(zlib.compress(text)).decode())

    assert rollback(iris(ROLLING, LIVE), [packed]) == rollback(
        iris(ROLLING, LIVE), [kept("old", OLD)]
    )


def test_a_compressed_spec_that_exceeds_the_limit_is_refused() -> None:
    bomb = base64.b64encode(zlib.compress(b'{"a":"' + b" " * (8 << 20) + b'"}')).decode()

    with pytest.raises(Failure, match="damaged"):
        rollback(iris(ROLLING), [KeptSpec("old", "", bomb)])


def test_a_retry_removes_what_names_the_revision_that_was_given_up() -> None:
    rollout = {**CANARY, "promote": "new/1", "abort": "new"}
    model = iris(
        {**COMPLETE, "current": "new", "rejected": {"revision": "new"}}, {"rollout": rollout}
    )

    edit = verbs.retry(model, NOW)

    assert edit.patch == merged(
        {"rollout": {"restartedAt": "2026-03-04T05:06:07Z", "promote": None, "abort": None}}
    )
    assert "new revision" in edit.done


def test_a_retry_restarts_a_revision_that_was_given_up() -> None:
    model = iris({"current": "new", "rejected": "new", "lastGood": "old"})

    edit = verbs.retry(model, NOW)

    assert edit.patch == merged({"rollout": {"restartedAt": "2026-03-04T05:06:07Z"}})
    assert edit.done == "the spec of revision new is tried again, as a new revision"


@pytest.mark.parametrize(
    ("revisions", "fact"),
    [
        (COMPLETE, "no rollout is in progress: revision old serves"),
        (ROLLING, "no rollout was given up: revision new is rolled out: run moorage why iris"),
    ],
)
def test_a_retry_without_a_revision_that_was_given_up_is_refused(
    revisions: dict[str, Any], fact: str
) -> None:
    with pytest.raises(Failure, match=fact):
        verbs.retry(iris(revisions), NOW)


@pytest.mark.parametrize(
    ("spec", "patch", "done"),
    [
        ({}, {"replicas": 3}, "gets 3 replicas"),
        ({"replicas": 1}, {"replicas": 3}, "gets 3 replicas"),
        ({"replicas": 3}, None, "has 3 replicas already"),
        (
            {"suspend": True},
            {"replicas": 3},
            "gets 3 replicas, once spec.suspend is false",
        ),
        ({"paused": True}, {"replicas": 3}, "gets 3 replicas, once the model is resumed"),
    ],
)
def test_scaling_sets_the_replicas_and_says_when_they_start(
    spec: dict[str, Any], patch: dict[str, Any] | None, done: str
) -> None:
    edit = verbs.scale(iris(COMPLETE, spec), 3)

    assert edit.patch == (None if patch is None else merged(patch))
    assert edit.done == done


@pytest.mark.parametrize(
    ("spec", "until"),
    [
        ({"suspend": True}, ", once spec.suspend is false"),
        ({"paused": True}, ", once the model is resumed"),
        (
            {"suspend": True, "paused": True},
            ", once spec.suspend is false and the model is resumed",
        ),
    ],
)
def test_an_edit_of_an_idle_model_says_when_it_takes_effect(
    spec: dict[str, Any], until: str
) -> None:
    rejected = iris({"current": "new", "rejected": "new", "lastGood": "old"}, spec)
    canary = iris(ROLLING, {"rollout": CANARY, **spec})

    edits = (verbs.restart(rejected, NOW), verbs.retry(rejected, NOW), verbs.abort(canary),
             verbs.promote(canary))  # fmt: skip

    assert all(edit.done.endswith(until) for edit in edits)


def test_scaling_a_model_with_an_autoscaler_is_refused_with_its_bounds() -> None:
    scaling = {"minReplicas": 2, "maxReplicas": 8}

    with pytest.raises(Failure, match=r"sets the replicas to 2 to 8, by spec\.scaling"):
        verbs.scale(iris(COMPLETE, {"scaling": scaling}), 3)


def test_scaling_to_one_replica_is_in_the_singular() -> None:
    assert verbs.scale(iris(COMPLETE, {"replicas": 2}), 1).done == "gets 1 replica"
