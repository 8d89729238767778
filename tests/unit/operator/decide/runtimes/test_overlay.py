"""The fields of a model over those of its InferenceRuntime."""

import copy
from typing import Any

import pytest

from moorage_operator.decide.runtimes.overlay import combined, without_choice


@pytest.mark.parametrize(
    ("spec", "bare"),
    [
        ({}, {}),
        ({"replicas": 2}, {"replicas": 2}),
        ({"runtime": {"name": "a"}, "model": {"format": "f"}}, {}),
        (
            {"runtime": {"name": "a", "image": "i"}, "model": {"format": "f", "uri": "u"}},
            {"runtime": {"image": "i"}, "model": {"uri": "u"}},
        ),
        (
            {"runtime": {"format": "f"}, "model": {"name": "n"}},
            {"runtime": {"format": "f"}, "model": {"name": "n"}},
        ),
        ({"runtime": {}, "model": {}}, {"runtime": {}, "model": {}}),
        ({"runtime": "name", "model": None}, {"runtime": "name", "model": None}),
    ],
)
def test_the_choice_of_a_runtime_is_taken_out(spec: dict[str, Any], bare: dict[str, Any]) -> None:
    before = copy.deepcopy(spec)

    assert without_choice(spec) == bare
    assert spec == before


def pod(**spec: Any) -> dict[str, Any]:
    return {"podTemplate": {"spec": spec}}


def container(**fields: Any) -> dict[str, Any]:
    return pod(containers=[{"name": "runtime", **fields}])


A, B, C = ({"name": name, "value": name} for name in "ABC")


@pytest.mark.parametrize(
    ("content", "spec", "expected"),
    [
        ({}, {}, {}),
        ({"protocol": "GRPS"}, {}, {"protocol": "GRPS"}),
        ({"protocol": "GRPS"}, {"protocol": "Auto"}, {"protocol": "Auto"}),
        ({"health": {"a": 1, "b": 1}}, {"health": {"b": 2}}, {"health": {"a": 1, "b": 2}}),
        ({}, {"podTemplate": None}, {}),
        ({}, pod(hostname="m"), pod(hostname="m")),
        (pod(hostname="r"), {}, pod(hostname="r")),
        (pod(hostname="r"), {"podTemplate": None}, pod(hostname="r")),
        (pod(hostname="r", subdomain="r"), pod(hostname="m"), pod(hostname="m", subdomain="r")),
        (pod(hostname="r"), pod(hostname=None), pod(hostname=None)),
        # Fields that a model sets elsewhere win over the pod template of its runtime.
        (
            pod(nodeSelector={"a": "r", "b": "r"}),
            {"nodeSelector": {"a": "m"}},
            {"nodeSelector": {"a": "m"}, **pod(nodeSelector={"a": "m", "b": "r"})},
        ),
        (pod(hostname="r"), {"nodeSelector": {"a": "m"}},
         {"nodeSelector": {"a": "m"}, **pod(hostname="r")}),
        (
            pod(tolerations=[{"key": "r"}]),
            {"tolerations": [{"key": "m"}]},
            {"tolerations": [{"key": "m"}], **pod(tolerations=[{"key": "m"}])},
        ),
        *(
            (pod(**{field: "r"}), {field: "m"}, {field: "m", **pod(**{field: "m"})})
            for field in ("priorityClassName", "serviceAccountName")
        ),
        (
            pod(affinity={"a": 1}),
            {"affinity": {"b": 1}},
            {"affinity": {"b": 1}, **pod(affinity={"a": 1, "b": 1})},
        ),
        (
            pod(imagePullSecrets=[{"name": "r"}]),
            {"imagePullSecrets": [{"name": "m"}]},
            {
                "imagePullSecrets": [{"name": "m"}],
                **pod(imagePullSecrets=[{"name": "r"}, {"name": "m"}]),
            },
        ),
        # The model's own pod template is above both.
        (
            pod(serviceAccountName="r"),
            {"serviceAccountName": "m", **pod(serviceAccountName="t")},
            {"serviceAccountName": "m", **pod(serviceAccountName="t")},
        ),
        (
            pod(terminationGracePeriodSeconds=9),
            {"health": {"terminationGracePeriodSeconds": 60}},
            {
                "health": {"terminationGracePeriodSeconds": 60},
                **pod(terminationGracePeriodSeconds=60),
            },
        ),
        (
            pod(terminationGracePeriodSeconds=9),
            {"health": {"periodSeconds": 1}},
            {"health": {"periodSeconds": 1}, **pod(terminationGracePeriodSeconds=9)},
        ),
        (
            pod(hostname="r"),
            {"health": {"terminationGracePeriodSeconds": 60}},
            {"health": {"terminationGracePeriodSeconds": 60}, **pod(hostname="r")},
        ),
        # The container of the server.
        (
            container(env=[A, B], image="r", args=["r"], command=["r"]),
            {"runtime": {"env": [C], "image": "m", "args": ["m"], "command": ["m"]}},
            {
                "runtime": {"env": [C], "image": "m", "args": ["m"], "command": ["m"]},
                **container(env=[A, B, C], image="m", args=["m"], command=["m"]),
            },
        ),
        (
            container(resources={"limits": {"a": 1, "b": 1}}),
            {"runtime": {"resources": {"limits": {"b": 2}}}},
            {
                "runtime": {"resources": {"limits": {"b": 2}}},
                **container(resources={"limits": {"a": 1, "b": 2}}),
            },
        ),
        (
            container(workingDir="/r"),
            {"runtime": {"image": "m", "ports": {"http": 1}}},
            {"runtime": {"image": "m", "ports": {"http": 1}}, **container(workingDir="/r")},
        ),
        (
            pod(containers=["none", {"name": "s", "image": "s"},
                            {"name": "runtime", "image": "r"}]),
            {"runtime": {"image": "m"}},
            {
                "runtime": {"image": "m"},
                **pod(
                    containers=[
                        "none",
                        {"name": "s", "image": "s"},
                        {"name": "runtime", "image": "m"},
                    ]
                ),
            },
        ),
        (
            pod(containers=[{"name": "s", "image": "s"}]),
            {"runtime": {"image": "m"}},
            {"runtime": {"image": "m"}, **pod(containers=[{"name": "s", "image": "s"}])},
        ),
        # What is malformed is left to the API server.
        ({"podTemplate": {"spec": 1}}, {"nodeSelector": {}},
         {"nodeSelector": {}, "podTemplate": {"spec": 1}}),
        (pod(containers=1), {"runtime": {"image": "m"}},
         {"runtime": {"image": "m"}, **pod(containers=1)}),
        (container(image="r"), {"runtime": None, "health": 1},
         {"runtime": None, "health": 1, **container(image="r")}),
    ],
)  # fmt: skip
def test_the_fields_of_a_model_lie_over_those_of_its_runtime(
    content: dict[str, Any], spec: dict[str, Any], expected: dict[str, Any]
) -> None:
    before = copy.deepcopy((content, spec))

    assert combined(content, spec) == expected
    assert (content, spec) == before
