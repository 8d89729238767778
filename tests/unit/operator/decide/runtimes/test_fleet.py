"""How many models use a runtime, and how many of them follow an edit at a time."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.api.v1alpha1 import parse
from moorage_operator.decide.runtimes.fleet import (
    User,
    concerned,
    held_by,
    holders,
    runtime_status,
    take_turns,
    user_of,
)
from moorage_operator.values.model_record import ModelRecord
from moorage_operator.values.observed import ObjectKey
from support.operator_runtimes import runtime, runtimes
from support.operator_values import NOW, body

AUTOMATIC = runtime("triton", image="t", updatePolicy="Automatic", maxConcurrentRollouts=2)

ON_THE_WAY = {"is_up_to_date": False, "is_following": True}
"""A model that follows an edit while the runtime is edited again."""

FAILED = {
    "is_outdated": False,
    "is_up_to_date": False,
    "is_following": True,
    "obstacle": "RolledBack",
    "detail": "revision r2 was given up",
}
"""A model whose rollout of the newest content failed."""


def key(name: str) -> ObjectKey:
    return ObjectKey("ns", name)


def user(name: str, **facts: Any) -> User:
    facts = {"runtime": "triton", "is_outdated": True, "is_up_to_date": True, **facts}
    return User(key(name), **facts)


def turns(*users: User, waiting: str, granted: str = "", of: Any = AUTOMATIC) -> str:
    found = take_turns(of, users, [key(each) for each in waiting], {key(each) for each in granted})
    return "".join(sorted(each.name for each in found))


@pytest.mark.parametrize(
    ("users", "waiting", "granted", "expected"),
    [
        ([user("a"), user("b"), user("c")], "abc", "", "ab"),
        ([user("a", is_outdated=False, is_up_to_date=False), user("b"), user("c")], "bc", "", "b"),
        ([user("a", is_outdated=False), user("b"), user("c")], "bc", "", "bc"),
        ([user("a"), user("b"), user("c")], "abc", "c", "ac"),
        ([user("a", is_up_to_date=False), user("b"), user("c")], "abc", "", "bc"),
        ([user("a", runtime="x", is_outdated=False, is_up_to_date=False)], "b", "", "b"),
        ([], "abc", "", "ab"),
        ([user("b", **ON_THE_WAY), user("a"), user("c")], "abc", "", "ab"),
        ([user("b", **ON_THE_WAY), user("c", **ON_THE_WAY), user("a")], "abc", "", "bc"),
        ([user("b", **ON_THE_WAY), user("c", **ON_THE_WAY), user("a")], "a", "", ""),
        ([user("b", **FAILED), user("c", **FAILED), user("a")], "a", "", ""),
        ([user("b", **FAILED, is_stopped=True), user("c", **FAILED), user("a")], "a", "", "a"),
    ],
    ids=[
        "as many as may", "one is moving", "one has moved", "a turn stays", "a broken one is last",
        "others do not count", "models without a runtime so far", "one follows a second edit",
        "only those that moved follow a second edit", "those that moved keep their places",
        "those that failed keep theirs", "one that its user stopped keeps none",
    ],
)  # fmt: skip
def test_turns_are_granted(users, waiting, granted, expected):
    assert turns(*users, waiting=waiting, granted=granted) == expected


def test_nobody_follows_a_runtime_without_the_policy():
    assert turns(user("a"), waiting="a", granted="a", of=runtime("triton", image="t")) == ""


@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), max_size=8),
    st.integers(1, 4),
    st.integers(1, 30),
)
def test_never_more_than_the_limit_move_and_all_arrive(models, limit, seed):
    """Each round grants turns; one of those that follow completes, in an order of the seed.

    Sometimes the runtime is edited again, and all models wait again.
    """
    of = runtime("triton", image="t", updatePolicy="Automatic", maxConcurrentRollouts=limit)
    everyone = {key(str(at)) for at in range(len(models))}
    waiting, moving = set(everyone), set[ObjectKey]()
    granted: frozenset[ObjectKey] = frozenset()
    for turn in range(4 * len(models) + 1):
        if turn < len(models) and models[turn][0]:
            waiting = set(everyone)
        users = [
            User(
                key(str(at)),
                "triton",
                is_outdated=key(str(at)) in waiting,
                is_up_to_date=key(str(at)) not in moving,
                is_following=key(str(at)) in moving,
            )
            for at in range(len(models))
        ]
        granted = take_turns(of, users, waiting, granted & waiting)
        assert len(moving | granted) <= limit
        if granted and seed % 2:
            first = min(granted)
            waiting.discard(first)
            moving.add(first)
        elif moving:
            moving.discard(max(moving))
        elif granted:
            first = max(granted)
            waiting.discard(first)
            moving.add(first)
        seed = seed * 7 % 31
    assert not waiting or len(moving) == limit or granted


def test_a_status_counts_the_models():
    users = [user("a"), user("b", is_outdated=False), user("c", runtime="x")]

    status = runtime_status(AUTOMATIC, runtimes(AUTOMATIC), users, {}, NOW)

    assert (status["models"], status["outdatedModels"]) == (2, 1)
    assert status["conditions"][0]["reason"] == "Valid"


@pytest.mark.parametrize(
    ("spec", "others", "reason", "message"),
    [
        ({}, [], "Valid", "the spec is valid"),
        (
            {"protocol": "REST", "transport": "UDP"},
            [],
            "InvalidSpec",
            (
                "spec.protocol: 'REST' is invalid: must be one of Auto, OpenInference, "
                "TensorFlowServing, GRPS, OpenAI, None; "
                "spec.transport: 'UDP' is invalid: must be one of HTTP, GRPC"
            ),
        ),
        (
            {"default": True},
            [runtime("z", default=True), runtime("b", default=True)],
            "SeveralDefaults",
            (
                "spec.default: true is also set in b, z, so models that name no runtime are "
                "refused; set it in one of them, or restrict allowedNamespaces"
            ),
        ),
    ],
)
def test_a_status_says_whether_a_runtime_is_accepted(spec, others, reason, message):
    one = runtime("triton", **spec)

    status = runtime_status(one, runtimes(one, *others), [], {}, NOW)

    (condition,) = status["conditions"]
    assert condition["type"] == "Accepted"
    assert condition["status"] == ("True" if reason == "Valid" else "False")
    assert (condition["reason"], condition["message"]) == (reason, message)
    assert condition["observedGeneration"] == status["observedGeneration"] == 1
    assert condition["lastTransitionTime"] == "2026-03-04T05:06:07Z"


def test_a_condition_that_stays_keeps_its_time():
    first = runtime_status(AUTOMATIC, runtimes(AUTOMATIC), [], {}, NOW)

    again = runtime_status(AUTOMATIC, runtimes(AUTOMATIC), [], first, NOW + timedelta(seconds=9))

    assert again == first


APPROVAL = {**FAILED, "obstacle": "AwaitingApproval", "detail": "canary r2"}


@pytest.mark.parametrize(
    ("users", "expected"),
    [
        ([user("a", **FAILED), user("b", **FAILED), user("c")], "ab"),
        ([user("a", **FAILED), user("b", **APPROVAL), user("c")], "ab"),
        ([user("a", **FAILED), user("b", **FAILED)], ""),
        ([user("a", **FAILED), user("b", **FAILED), user("c", is_stopped=True)], ""),
        ([user("a", **FAILED), user("b", **ON_THE_WAY), user("c")], ""),
        ([user("a", **FAILED), user("b", **FAILED, is_stopped=True), user("c")], ""),
        ([user("a", **FAILED), user("b", **{**FAILED, "runtime": "x"}), user("c")], ""),
        ([user("b", **FAILED), user("a", **FAILED), user("x", **FAILED), user("c")], "abx"),
        ([user("a", **FAILED), user("b", **FAILED), user("c", is_outdated=False)], ""),
        ([user("a", **FAILED), user("b", **FAILED), user("c", **ON_THE_WAY)], ""),
    ],
    ids=[
        "both failed", "one waits for approval", "nobody waits", "only a stopped one waits",
        "one continues", "one is stopped", "one has another runtime", "more than the limit",
        "all have moved", "the last one moves",
    ],
)  # fmt: skip
def test_an_update_is_held_once_no_place_comes_free_by_itself(users, expected):
    found = holders(AUTOMATIC, users)

    assert "".join(each.key.name for each in found) == expected


def test_a_runtime_without_the_policy_is_not_held():
    of = runtime("triton", image="t")

    assert holders(of, [user("a", **FAILED), user("b")]) == ()


def test_a_status_names_the_models_that_hold_an_update_with_their_messages():
    users = [user("a", **FAILED), user("b", **APPROVAL), user("c")]

    accepted, held = runtime_status(AUTOMATIC, runtimes(AUTOMATIC), users, {}, NOW)["conditions"]

    assert accepted["status"] == "True"
    assert (held["type"], held["status"], held["reason"]) == (
        "UpdateHeld",
        "True",
        "AwaitingModel",
    )
    assert held["message"] == (
        "update held: model ns/a failed with RolledBack: revision r2 was given up; "
        "model ns/b waits for approval: canary r2; "
        "correct the InferenceRuntime or the model, or set spec.paused to true in them so that "
        "other models follow"
    )


HELD = "update held: model ns/a failed with RolledBack"
FIX = "correct the InferenceRuntime or the model, or set spec.paused to true in"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("", ""),
        (
            "a",
            f"{HELD}; {FIX} it so that other models follow",
        ),
        (
            "abc",
            (
                f"{HELD}; model ns/b failed with RolledBack; "
                f"model ns/c failed with RolledBack; {FIX} them so that other models follow"
            ),
        ),
        (
            "abcde",
            (
                f"{HELD}; model ns/b failed with RolledBack; "
                "model ns/c failed with RolledBack; and 2 more models; "
                f"{FIX} them so that other models follow"
            ),
        ),
    ],
)
def test_models_learn_the_names_of_holders_but_not_their_messages(names, expected):
    assert held_by([user(each, **FAILED) for each in names]) == expected


def of_status(status: Any, **spec: Any) -> ModelRecord:
    return ModelRecord(key("a"), parse({**body(), "spec": spec}), "1", status)


def test_a_user_is_read_from_a_status():
    conditions = [
        {"type": "RuntimeUpdatePending", "status": "True"},
        {"type": "UpToDate", "status": "False"},
    ]
    use = {"name": "triton", "content": "{}", "specHash": "v1:0", "generation": 1}

    assert user_of(of_status({"runtime": use, "conditions": conditions})) == user(
        "a", is_up_to_date=False
    )
    following = {"runtime": {**use, "following": True}, "conditions": conditions}
    assert user_of(of_status(following)) == user("a", **ON_THE_WAY)
    assert user_of(of_status({})) is None


@pytest.mark.parametrize("field", ["paused", "suspend"])
def test_a_user_is_stopped_by_its_spec_before_its_status_says_so(field):
    use = {"name": "triton", "content": "{}", "following": True}

    going, stopped = (user_of(of_status({"runtime": use}, **{field: at})) for at in (False, True))

    assert (going and going.is_moving, stopped and stopped.is_moving) == (True, False)


def test_a_user_that_is_being_deleted_takes_no_place():
    use = {"name": "triton", "content": "{}", "following": True}
    deleting = body()
    deleting["metadata"]["deletionTimestamp"] = "2026-03-04T05:06:07Z"

    found = user_of(ModelRecord(key("a"), parse(deleting), "1", {"runtime": use}))

    assert found
    assert not found.is_moving


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([("Stalled", "True", "RolledBack")], "RolledBack"),
        ([("UpToDate", "False", "AwaitingApproval")], "AwaitingApproval"),
        ([("UpToDate", "False", "RollingOut"), ("Reconciling", "True", "RollingOut")], ""),
        ([("Stalled", "False", "RolledBack")], ""),
        (
            [("Stalled", "True", "RolledBack"), ("UpToDate", "False", "AwaitingApproval")],
            "RolledBack",
        ),
        ([], ""),
    ],
)
def test_an_obstacle_is_what_waits_for_a_person(conditions, expected):
    use = {"name": "triton", "content": "{}"}
    listed = [
        {"type": type_, "status": status, "reason": reason, "message": "why"}
        for type_, status, reason in conditions
    ]

    found = user_of(of_status({"runtime": use, "conditions": listed}))

    assert found
    assert found.obstacle == expected
    assert found.detail == ("why" if expected else "")


USES_TRITON = {"runtime": {"name": "triton", "content": "{}"}}


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        ({"runtime": {"name": "triton"}}, {}, True),
        ({"runtime": {"name": "mlserver"}}, {}, False),
        ({"runtime": {"name": "mlserver"}}, USES_TRITON, True),
        ({"runtime": {"image": "server:1"}}, {}, False),
        ({"model": {"uri": "pvc://a", "format": "onnx"}}, {}, True),
        ({"model": {"uri": "pvc://a", "format": "keras"}}, {}, False),
        ({"model": {"uri": "pvc://a"}}, {}, True),
    ],
    ids=[
        "named", "another", "kept from before", "none", "its format", "another format", "default",
    ],
)  # fmt: skip
def test_a_changed_runtime_concerns_the_models_that_use_or_could_use_it(spec, status, expected):
    model = ModelRecord(key("a"), parse({**body(), "spec": spec}), "1", status)
    formats = runtime("triton", image="t", formats=[{"name": "onnx"}])
    default = runtime("standard", default=True)

    found = concerned([model], [formats, default])

    assert found == ({key("a")} if expected else set())
    assert concerned([model], []) == set()
