"""What a model is with its runtime, and when it gets an edited one."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.api.v1alpha1 import InferenceModel, parse
from moorage_operator.decide.runtimes.overlay import combined
from moorage_operator.decide.runtimes.resolution import resolve
from moorage_operator.resources.pod_template import make_pod_template
from moorage_operator.values.revisions import Revisions, write_revisions
from moorage_operator.values.runtimes import (
    Resolution,
    Runtimes,
    read_runtime_use,
    write_runtime_use,
)
from support.operator_runtimes import DEFAULT, TRITON, runtime, runtimes
from support.operator_values import CONFIG, body

URI = {"uri": "configmap://digits-files"}


def resolved(
    spec: dict[str, Any],
    known: Runtimes,
    status: dict[str, Any] | None = None,
    *,
    may_follow: bool = False,
) -> Resolution:
    own = parse({**body(), "spec": spec})
    return resolve(own, spec, status or {}, known, may_follow=may_follow)


def status_of(found: Resolution) -> dict[str, Any]:
    """The status that a reconcile writes."""
    model, use = found.model, found.state.use
    revisions = Revisions("r1", model.written.hash)
    runtime = {"runtime": write_runtime_use(use)} if use else {}
    return {"revisions": write_revisions(revisions), **runtime}


def env_of(model: InferenceModel) -> dict[str, str]:
    container = make_pod_template(model, CONFIG)["spec"]["containers"][0]
    return {each["name"]: each.get("value", "") for each in container["env"]}


NAMED = {"model": URI, "runtime": {"name": "triton"}}
AUTOMATIC = runtime("triton", image="triton:2", updatePolicy="Automatic")


@pytest.mark.parametrize(("paused", "expected"), [(False, True), (True, False)])
def test_a_model_that_waits_for_its_turn_says_what_holds_the_update(paused, expected):
    spec = {**NAMED, "paused": paused}
    status = status_of(resolved(NAMED, runtimes(TRITON)))
    own = parse({**body(), "spec": spec})
    held = {"triton": "update held: model ns/rose failed with RolledBack"}

    found = resolve(own, spec, status, runtimes(AUTOMATIC), may_follow=False, held=held)

    assert found.state.pending
    assert found.state.pending.message.endswith(held["triton"]) is expected
    free = resolve(own, spec, status, runtimes(AUTOMATIC), may_follow=False, held={})
    assert free.state.pending
    assert "update held" not in free.state.pending.message


@pytest.mark.parametrize(("protocol", "fits"), [("OpenAI", True), ("OpenInference", False)])
def test_a_name_with_slashes_fits_the_protocol_of_the_runtime(protocol: str, fits: bool) -> None:
    known = runtimes(runtime("server", image="server:1", protocol=protocol))
    spec = {"model": {"name": "Qwen/Qwen3-8B"}, "runtime": {"name": "server"}}

    model = resolved(spec, known).model

    assert [each.path for each in model.problems] == ([] if fits else ["spec.model.name"])
    assert not fits or env_of(model)["MOORAGE_MODEL_NAME"] == "Qwen/Qwen3-8B"


NEWER = replace(TRITON, content={"runtime": {"image": "triton:2"}}, generation=2)


def test_the_fields_of_a_model_lie_over_those_of_its_runtime():
    server = runtime(
        "server",
        image="server:1",
        args=["--a"],
        env=[{"name": "A", "value": "1"}, {"name": "B", "value": "1"}],
        ports={"http": 9000, "grpc": 9001},
        protocol="TensorFlowServing",
        health={"periodSeconds": 7, "timeoutSeconds": 3},
        resources={"limits": {"memory": "1Gi"}},
        podTemplate={
            "spec": {
                "nodeSelector": {"gpu": "a", "zone": "z"},
                "containers": [{"name": "runtime", "env": [{"name": "C", "value": "1"}]}],
            }
        },
    )
    spec = {
        "model": URI,
        "runtime": {
            "name": "server",
            "args": ["--b"],
            "env": [{"name": "B", "value": "2"}, {"name": "C", "value": "2"}],
            "ports": {"http": 8080},
            "resources": {"limits": {"cpu": "1"}},
        },
        "protocol": "OpenInference",
        "health": {"timeoutSeconds": 4},
        "nodeSelector": {"gpu": "b"},
    }

    model = resolved(spec, runtimes(server)).model

    assert model.problems == ()
    assert (model.runtime.image, model.runtime.args) == ("server:1", ("--b",))
    assert (model.runtime.ports.http, model.runtime.ports.grpc) == (8080, 9001)
    assert model.protocol == "OpenInference"
    assert (model.health.period_seconds, model.health.timeout_seconds) == (7, 4)
    assert model.runtime.resources == {"limits": {"memory": "1Gi", "cpu": "1"}}
    env = env_of(model)
    assert (env["A"], env["B"], env["C"]) == ("1", "2", "2")
    pod = make_pod_template(model, CONFIG)["spec"]
    assert pod["nodeSelector"] == {"gpu": "b", "zone": "z"}


def test_a_runtime_finds_the_model_by_two_variables_before_those_of_the_user():
    model = resolved(NAMED, runtimes(TRITON)).model

    env = env_of(model)
    assert env["MOORAGE_MODEL_PATH"] == "/mnt/models"
    assert env["MOORAGE_MODEL_NAME"] == "digits"
    last = resolved(
        {**NAMED, "runtime": {"name": "triton", "env": [{"name": "OWN", "value": "1"}]}},
        runtimes(TRITON),
    )
    names = list(env_of(last.model))
    assert names.index("MOORAGE_MODEL_PATH") < names.index("OWN")


def test_null_in_the_pod_template_of_a_model_removes_what_the_operator_plans():
    server = runtime("triton", image="t", podTemplate={"spec": {"hostname": "a"}})
    overlay = {"spec": {"hostname": None, "topologySpreadConstraints": None}}

    model = resolved({**NAMED, "podTemplate": overlay}, runtimes(server)).model

    pod = make_pod_template(model, CONFIG)["spec"]
    assert "hostname" not in pod
    assert "topologySpreadConstraints" not in pod


def test_null_in_a_container_of_a_model_removes_what_the_operator_plans():
    container = {"name": "runtime", "workingDir": "/work"}
    server = runtime("triton", image="t", podTemplate={"spec": {"containers": [container]}})
    overlay = {"spec": {"containers": [{"name": "runtime", "livenessProbe": None}]}}

    model = resolved({**NAMED, "podTemplate": overlay}, runtimes(server)).model

    (made,) = make_pod_template(model, CONFIG)["spec"]["containers"]
    assert made["workingDir"] == "/work"
    assert "livenessProbe" not in made


def test_without_runtimes_a_model_is_what_it_was():
    for spec in ({"model": URI}, {"runtime": {"image": "a"}}, {"model": URI, "protocol": "Auto"}):
        own = parse({**body(), "spec": spec})

        assert resolve(own, spec, {}, Runtimes(), may_follow=False) == Resolution(own)
        unreadable = Runtimes(unreadable="not installed")
        assert resolve(own, spec, {}, unreadable, may_follow=False) == Resolution(own)


def test_a_default_runtime_without_content_changes_no_model():
    own = resolved({"model": URI}, Runtimes())

    found = resolved({"model": URI}, runtimes(DEFAULT), status_of(own))

    assert found.model == own.model
    assert found.model.written == own.model.written
    assert found.state.pending is None
    assert found.state.use
    assert found.state.use.name == "standard"


def test_a_new_default_runtime_changes_no_model_that_runs():
    own = resolved({"model": URI}, Runtimes())
    default = runtime("standard", default=True, image="server:1")

    kept = resolved({"model": URI}, runtimes(default), status_of(own))
    edited = resolved({"model": URI, "protocol": "Auto"}, runtimes(default), status_of(own))

    assert kept.model.written == own.model.written
    assert kept.state.pending
    assert "'standard' is now the default" in kept.state.pending.message
    assert edited.model.runtime.image == "server:1"
    assert edited.state.pending is None


def test_an_edited_runtime_changes_a_model_at_its_next_edit():
    first = resolved(NAMED, runtimes(TRITON))

    kept = resolved(NAMED, runtimes(NEWER), status_of(first))
    edits = [
        {**NAMED, "protocol": "OpenInference"},  # the default, but written now
        {**NAMED, "rollout": {"restartedAt": "2026-03-04T05:06:07Z"}},
    ]

    assert kept.model.written == first.model.written
    assert kept.state.use == first.state.use
    assert kept.state.pending
    assert kept.state.pending.reason == "RuntimeChanged"
    for edited in edits:
        found = resolved(edited, runtimes(NEWER), status_of(kept))
        assert found.model.runtime.image == "triton:2"
        assert found.state.pending is None


@pytest.mark.parametrize(
    "part",
    [{"replicas": 3}, {"suspend": True}, {"rollout": {"promote": "abc"}}, {"paused": True}],
    ids=lambda part: next(iter(part)),
)
def test_what_starts_no_rollout_is_no_edit_to_follow_at(part):
    first = resolved(NAMED, runtimes(TRITON))

    found = resolved({**NAMED, **part}, runtimes(NEWER), status_of(first))

    assert found.model.written.hash == first.model.written.hash
    assert found.state.pending


def test_a_port_of_the_model_need_only_differ_from_that_of_its_runtime():
    spec = {**NAMED, "runtime": {"name": "triton", "ports": {"grpc": 8000}}}  # that of HTTP
    server = runtime("triton", image="t", ports={"http": 9000})

    model = resolved(spec, runtimes(server)).model
    alone = resolved(spec, runtimes(TRITON)).model

    assert model.problems == ()
    assert (model.runtime.ports.http, model.runtime.ports.grpc) == (9000, 8000)
    assert [each.path for each in alone.problems] == ["spec.runtime.ports.grpc"]


def test_a_model_whose_fields_are_valid_only_with_its_runtime_follows_at_its_next_edit():
    server = {"name": "triton", "ports": {"grpc": 8000}}
    first = resolved(
        {**NAMED, "runtime": server},
        runtimes(runtime("triton", image="triton:1", ports={"http": 9000})),
    )
    newer = runtimes(runtime("triton", image="triton:2", ports={"http": 9000}))

    edited = resolved({"model": {**URI, "name": "b"}, "runtime": server}, newer, status_of(first))

    assert edited.model.runtime.image == "triton:2"


def test_an_edit_that_changes_nothing_for_the_model_is_not_pending():
    spec = {**NAMED, "runtime": {"name": "triton", "args": ["--mine"]}}
    one = runtime("triton", image="t", args=["--a"])
    first = resolved(spec, runtimes(one))

    found = resolved(spec, runtimes(runtime("triton", image="t", args=["--b"])), status_of(first))

    assert found.state.pending is None
    assert found.model.written == first.model.written


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        (runtimes(), "RuntimeNotFound"),
        (
            runtimes(runtime("triton", image="t", allowedNamespaces={
                "selector": {"matchLabels": {"team": "none"}}})),
            "RuntimeNotAllowed",
        ),
        (runtimes(runtime("triton", image="t", protocol="REST")), "RuntimeInvalid"),
        (runtimes(runtime("triton", image="t", transport="GRPC", paths={"metadata": "/m"})),
         "RuntimeInvalid"),
    ],
    ids=["deleted", "not allowed", "invalid", "invalid with the model"],
)  # fmt: skip
def test_a_runtime_that_cannot_be_used_any_more_stops_no_model(known, reason):
    first = resolved(NAMED, runtimes(TRITON))

    kept = resolved(NAMED, known, status_of(first))
    edited = resolved({**NAMED, "runtime": {"name": "triton", "args": ["a"]}}, known,
                      status_of(first))  # fmt: skip
    reverted = resolved(NAMED, runtimes(NEWER), status_of(first) | runtime_part(edited))

    assert kept.model.written == first.model.written
    assert kept.state.pending
    assert kept.state.pending.reason == reason
    assert edited.model.problems
    assert edited.state.use == first.state.use
    assert reverted.model.written == first.model.written


def runtime_part(found: Resolution) -> dict[str, Any]:
    return {"runtime": write_runtime_use(found.state.use)} if found.state.use else {}


def test_a_model_follows_automatically_only_at_its_turn_and_in_two_steps():
    automatic = runtime("triton", image="triton:2", updatePolicy="Automatic")
    first = resolved(NAMED, runtimes(TRITON))
    before = status_of(first)

    waits = resolved(NAMED, runtimes(automatic), before)
    follows = resolved(NAMED, runtimes(automatic), before, may_follow=True)
    followed = resolved(NAMED, runtimes(automatic), before | runtime_part(follows))

    assert (waits.state.awaits, waits.state.follows) == ("triton", False)
    assert waits.model.written == first.model.written
    assert (follows.state.awaits, follows.state.follows) == ("triton", True)
    assert follows.model.written == first.model.written
    assert followed.model.runtime.image == "triton:2"
    assert (followed.state.awaits, followed.state.pending) == ("", None)


def test_a_model_is_following_from_its_turn_until_its_next_edit():
    automatic = runtime("triton", image="triton:2", updatePolicy="Automatic")
    newer = replace(automatic, content={"runtime": {"image": "triton:3"}}, generation=3)
    before = status_of(resolved(NAMED, runtimes(TRITON)))
    follows = resolved(NAMED, runtimes(automatic), before, may_follow=True)
    during = before | runtime_part(follows)

    followed = resolved(NAMED, runtimes(automatic), during)
    outdated = resolved(NAMED, runtimes(newer), during)
    edited = resolved({**NAMED, "protocol": "OpenAI"}, runtimes(newer), during)

    found = [each.state.use for each in (follows, followed, outdated, edited)]
    assert [each and each.is_following for each in found] == [True, True, True, False]


def test_a_paused_model_does_not_follow_and_records_no_edit():
    automatic = runtime("triton", image="triton:2", updatePolicy="Automatic")
    first = resolved(NAMED, runtimes(TRITON))
    paused = {**NAMED, "paused": True}
    edited = {**paused, "runtime": {"name": "triton", "args": ["a"]}}

    waits = resolved(paused, runtimes(automatic), status_of(first), may_follow=True)
    during = resolved(edited, runtimes(automatic), status_of(first))

    assert (waits.state.awaits, waits.state.follows) == ("", False)
    assert during.state.use == first.state.use


def test_a_model_keeps_its_default_runtime_while_runtimes_cannot_be_read():
    default = runtime("standard", default=True, image="server:1")
    first = resolved({"model": URI}, runtimes(default))
    away = Runtimes(unreadable="the operator may not read them")

    kept = resolved({"model": URI}, away, status_of(first))
    edited = resolved({"model": URI, "protocol": "Auto"}, away, status_of(first))

    assert kept.model.written == first.model.written
    assert edited.model.runtime.image == "server:1"


def test_a_damaged_status_is_no_kept_runtime():
    for damaged in ({"name": 3, "content": "{}"}, {"name": "a"}, {"name": "a", "content": {}}):
        assert read_runtime_use({"runtime": damaged}) is None


PARTS = st.fixed_dictionaries(
    {},
    optional={
        "protocol": st.sampled_from(["Auto", "OpenInference", "GRPS"]),
        "transport": st.sampled_from(["HTTP", "GRPC"]),
        "runtime": st.fixed_dictionaries(
            {},
            optional={
                "image": st.sampled_from(["a:1", "b:1"]),
                "args": st.lists(st.sampled_from(["--a", "--b"]), max_size=2),
                "ports": st.fixed_dictionaries({}, optional={"http": st.sampled_from([1, 2])}),
            },
        ),
        "health": st.fixed_dictionaries(
            {}, optional={"periodSeconds": st.integers(1, 3), "timeoutSeconds": st.integers(1, 3)}
        ),
        "podTemplate": st.fixed_dictionaries(
            {},
            optional={
                "spec": st.dictionaries(
                    st.sampled_from(["hostname", "subdomain"]),
                    st.sampled_from(["x", "y", None]),
                )
            },
        ),
    },
)


def leaves(value: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    if isinstance(value, dict):
        below = (leaves(each, (*path, name)) for name, each in value.items())
        return dict(itertools.chain.from_iterable(each.items() for each in below))
    return {path: value}


@given(content=PARTS, spec=PARTS)
def test_each_field_comes_from_the_model_or_else_from_the_runtime(content, spec):
    found, lower, upper = (leaves(each) for each in (combined(content, spec), content, spec))

    assert found == {**lower, **upper}


@given(spec=PARTS, edits=st.lists(PARTS, min_size=1, max_size=4))
def test_no_edit_of_a_runtime_changes_a_model_that_is_not_edited(spec, edits):
    named = {**spec, "model": URI, "runtime": {**spec.get("runtime", {}), "name": "triton"}}
    first = resolved(named, runtimes(TRITON))
    if first.model.problems:
        return
    found = first
    for content in edits:
        found = resolved(named, runtimes(replace(TRITON, content=content)), status_of(found))
        assert found.model.written.hash == first.model.written.hash
