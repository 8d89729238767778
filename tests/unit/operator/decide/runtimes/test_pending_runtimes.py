"""What a model's status says of a content of its InferenceRuntime that it does not have yet."""

from dataclasses import replace
from typing import Any

import pytest

from moorage_operator.api.conditions import Finding, Reason
from moorage_operator.api.inference_runtime import InferenceRuntime
from moorage_operator.api.v1alpha1 import parse
from moorage_operator.decide.runtimes.resolution import resolve
from moorage_operator.values.revisions import Revisions, write_revisions
from moorage_operator.values.runtimes import (
    Resolution,
    Runtimes,
    RuntimeState,
    RuntimeUse,
    write_runtime_use,
)
from support.operator_runtimes import TRITON, runtime, runtimes
from support.operator_values import body

URI = {"uri": "configmap://digits-files"}
NAMED: dict[str, Any] = {"model": URI, "runtime": {"name": "triton"}}
PLAIN: dict[str, Any] = {"model": URI}
NOW = "to follow now, edit the spec or set spec.rollout.restartedAt to the current time"
KEPT = "the model keeps the content that it was started with"


def resolved(
    spec: dict[str, Any],
    known: Runtimes,
    before: Resolution | None = None,
    *,
    may_follow: bool = False,
) -> Resolution:
    """What a model becomes after a reconcile with another result."""
    status: dict[str, Any] = {}
    if before:
        revisions = Revisions("r1", before.model.written.hash)
        status["revisions"] = write_revisions(revisions)
        if before.state.use:
            status["runtime"] = write_runtime_use(before.state.use)
    return resolve(parse({**body(), "spec": spec}), spec, status, known, may_follow=may_follow)


def edited(**spec: Any) -> InferenceRuntime:
    return replace(runtime("triton", image="triton:2", **spec), generation=2)


def default(name: str, image: str) -> InferenceRuntime:
    return runtime(name, image=image, default=True)


AUTOMATIC = {"updatePolicy": "Automatic"}
GATED = {"allowedNamespaces": {"selector": {"matchLabels": {"team": "none"}}}}


@pytest.mark.parametrize(
    ("spec", "first", "then", "reason", "message"),
    [
        (
            NAMED, [TRITON], [edited()], "RuntimeChanged",
            f"the InferenceRuntime 'triton' was edited; {KEPT}; {NOW}",
        ),
        (
            NAMED, [TRITON], [edited(**AUTOMATIC)], "RuntimeChanged",
            (f"the InferenceRuntime 'triton' was edited; {KEPT}; it follows by itself, while at "
            f"most one model is being updated; {NOW}"),
        ),
        (
            NAMED, [TRITON], [edited(**AUTOMATIC, maxConcurrentRollouts=2)], "RuntimeChanged",
            (f"the InferenceRuntime 'triton' was edited; {KEPT}; it follows by itself, while at "
            f"most 2 models are being updated; {NOW}"),
        ),
        (
            PLAIN, [default("a", "a:1")], [default("b", "b:1")], "RuntimeChanged",
            f"the InferenceRuntime is now 'b' instead of 'a'; {KEPT}; {NOW}",
        ),
        (
            PLAIN, [], [default("b", "b:1")], "RuntimeChanged",
            f"the InferenceRuntime 'b' is now the default; {KEPT}; {NOW}",
        ),
        (
            PLAIN, [default("a", "a:1")], [], "RuntimeNotFound",
            ("the InferenceRuntime 'a' does not exist or is no longer the default; the model "
            "keeps the content that it was started with until its spec is edited; set "
            "runtime.name to keep a runtime"),
        ),
        (
            NAMED, [TRITON], [], "RuntimeNotFound",
            ("the model keeps the content of the InferenceRuntime 'triton' that it was started "
            "with; an edit of the spec would be refused: spec.runtime.name: 'triton' is not the "
            "name of an InferenceRuntime; no InferenceRuntime exists"),
        ),
        (
            PLAIN, [], [default("a", "a:1"), default("b", "b:1")], "RuntimeAmbiguous",
            ("the model keeps no runtime: spec.runtime.name: is absent, and the default is "
            "ambiguous: 'a' and 'b' have default: true; set runtime.name to one of them, or "
            "remove default from all but one"),
        ),
        (
            {**NAMED, "runtime": {"name": "triton", "ports": {"grpc": 9000}}},
            [TRITON], [edited(ports={"http": 9000}, health={"timeoutSeconds": 9,
                                                            "periodSeconds": 2})],
            "RuntimeInvalid",
            ("the InferenceRuntime 'triton' was edited, and the spec is invalid with it: "
            "{problems}; the model keeps the content that it was started with; correct the "
            "runtime or the spec"),
        ),
    ],
)  # fmt: skip
def test_a_model_says_why_it_would_get_another_content(
    spec: dict[str, Any],
    first: list[InferenceRuntime],
    then: list[InferenceRuntime],
    reason: str,
    message: str,
) -> None:
    before = resolved(spec, runtimes(*first))

    found = resolved(spec, runtimes(*then), before)

    problems = resolved(spec, runtimes(*then)).model.problems
    message = message.replace("{problems}", "; ".join(map(str, problems)))
    assert found.state.pending == Finding(Reason(reason), message)
    assert found.state.use == before.state.use
    assert not found.state.follows
    assert found.model == before.model


def test_an_invalid_edit_lists_every_problem() -> None:
    spec = {**NAMED, "runtime": {"name": "triton", "ports": {"grpc": 9000}}}
    worse = edited(ports={"http": 9000}, transport="GRPC", paths={"metadata": "/m"})
    before = resolved(spec, runtimes(TRITON))

    found = resolved(spec, runtimes(worse), before, may_follow=True)

    assert found.state.pending
    assert "invalid with it: " in found.state.pending.message
    assert "; spec." in found.state.pending.message
    assert not found.state.follows


def test_the_status_keeps_the_content_with_its_generation_and_the_spec() -> None:
    two = replace(runtime("triton", image="triton:2", args=["b", "a"]), generation=7)

    first = resolved(NAMED, runtimes(two))
    other = resolved({**NAMED, "protocol": "Auto"}, runtimes(two))

    assert first.state.use
    assert first.state == RuntimeState(
        RuntimeUse(
            "triton",
            7,
            first.state.use.spec_hash,
            '{"runtime":{"args":["b","a"],"image":"triton:2"}}',
        )
    )
    assert other.state.use
    assert first.state.use.spec_hash.startswith("v1:")
    assert other.state.use.spec_hash != first.state.use.spec_hash


def test_a_model_that_follows_records_the_new_content_first() -> None:
    newer = edited(**AUTOMATIC)
    before = resolved(NAMED, runtimes(TRITON))
    assert before.state.use

    waits = resolved(NAMED, runtimes(newer), before)
    follows = resolved(NAMED, runtimes(newer), before, may_follow=True)
    done = resolved(NAMED, runtimes(newer), follows)

    content = '{"runtime":{"image":"triton:2"}}'
    use = RuntimeUse("triton", 2, before.state.use.spec_hash, content, is_following=True)
    assert waits.state.awaits == "triton"
    assert waits.state.use == before.state.use
    assert follows == Resolution(before.model, RuntimeState(use, follows=True, awaits="triton"))
    assert done.state == RuntimeState(use)
    assert done.model.runtime.image == "triton:2"


def test_a_model_follows_only_a_runtime_with_the_policy_and_only_if_it_is_not_paused() -> None:
    before = resolved(NAMED, runtimes(TRITON))

    manual = resolved(NAMED, runtimes(edited()), before, may_follow=True)
    paused = resolved(
        {**NAMED, "paused": True}, runtimes(edited(**AUTOMATIC)), before, may_follow=True
    )

    for each in (manual, paused):
        assert (each.state.follows, each.state.awaits) == (False, "")
        assert each.state.use == before.state.use


def test_another_runtime_without_content_is_recorded_without_a_rollout() -> None:
    other = replace(runtime("b", default=True), generation=3)
    before = resolved(PLAIN, runtimes(runtime("a", default=True)))
    assert before.state.use
    following = replace(
        before, state=replace(before.state, use=replace(before.state.use, is_following=True))
    )

    for start in (before, following):
        found = resolved(PLAIN, runtimes(other), start)
        assert start.state.use
        assert found.state == RuntimeState(replace(start.state.use, name="b", generation=3))


def test_a_default_without_an_effect_is_recorded_for_a_model_that_runs() -> None:
    before = resolved(PLAIN, runtimes())
    plain = replace(runtime("standard", default=True), generation=4)

    found = resolved(PLAIN, runtimes(plain), before)

    assert found.model == before.model
    assert found.state.use
    assert (found.state.use.name, found.state.use.generation) == ("standard", 4)
    assert found.state.pending is None


def test_while_runtimes_cannot_be_read_an_edit_gets_the_content_that_is_kept() -> None:
    before = resolved(PLAIN, runtimes(default("a", "a:1")))
    away = Runtimes(unreadable="so")

    found = resolved({**PLAIN, "protocol": "Auto"}, away, before)
    later = resolved({**PLAIN, "protocol": "Auto"}, runtimes(default("a", "a:2")), found)

    assert found.model.runtime.image == "a:1"
    assert found.state.pending is None
    assert later.model.runtime.image == "a:1"
    assert later.state.pending


def test_a_content_that_somebody_damaged_counts_as_none() -> None:
    before = resolved(NAMED, runtimes(TRITON))
    assert before.state.use
    for content in ("{", "[]", '"a"'):
        damaged = replace(before, state=RuntimeState(replace(before.state.use, content=content)))

        found = resolved(NAMED, runtimes(TRITON), damaged)

        assert found.model.runtime.image == ""
        assert found.state.pending
        assert found.state.pending.reason is Reason.RUNTIME_CHANGED


def test_an_edit_that_cannot_be_carried_out_is_not_recorded() -> None:
    before = resolved(NAMED, runtimes(TRITON))
    edit = {**NAMED, "protocol": "Auto"}

    for spec in ({**edit, "paused": True}, {**edit, "replicas": -1}):
        found = resolved(spec, runtimes(edited()), before)
        assert found.state == RuntimeState(before.state.use)
    refused = resolved(edit, runtimes(), before)
    assert [each.path for each in refused.model.problems] == ["spec.runtime.name"]
    assert refused.state == RuntimeState(before.state.use)


def test_a_model_that_takes_no_runtime_any_more_forgets_it() -> None:
    before = resolved(PLAIN, runtimes(default("a", "a:1")))

    for spec in ({"runtime": {"image": "mine:1"}}, {**PLAIN, "protocol": "Auto"}):
        assert resolved(spec, runtimes(), before).state == RuntimeState()


def test_a_model_that_is_deleted_is_not_resolved() -> None:
    own = replace(parse({**body(), "spec": NAMED}), deleting=True)

    found = resolve(own, NAMED, {}, runtimes(TRITON), may_follow=True)

    assert found == Resolution(own)
