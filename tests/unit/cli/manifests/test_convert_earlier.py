"""Manifests whose fields have moved since: what lint reports, and their conversion."""

import pytest
import yaml

from moorage_cli.manifests.convert.conversion import ConversionError
from moorage_cli.manifests.convert.texts import convert_text
from moorage_cli.manifests.lint import lint_text, schemas
from support.cli_manifests import manifest

SCHEMAS = schemas()
MODEL = {"model": {"uri": "pvc://models/iris"}}
WEB = [{"name": "web", "namespace": "gateways"}]
TEST = {
    "name": "one",
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [[0, 1.5]]}],
}
SERVER = {"serverAddress": "http://prometheus:9090", "query": 'sum(up{job="a"})'}
APPROVED, REQUEST = "moorage.dev/canary-approved", "moorage.dev/rollout-request"


def by(metric):
    return {"scaling": {"maxReplicas": 4, "metrics": [metric]}}


# The earlier spec, the present one, and the fields that lint names.
MOVED = [
    (
        {"rollout": {"strategy": "Canary", "canary": {"parentRefs": WEB, "hostnames": ["a.b"]}}},
        {"route": {"parentRefs": WEB, "hostnames": ["a.b"]}, "rollout": {"strategy": "Canary"}},
        ["spec.rollout.canary.parentRefs", "spec.rollout.canary.hostnames"],
    ),
    (
        {"rollout": {"canary": {"parentRefs": WEB, "keepSeconds": 30}}},
        {"route": {"parentRefs": WEB}, "rollout": {"canary": {"keepSeconds": 30}}},
        ["spec.rollout.canary.parentRefs"],
    ),
    (
        {"rollout": {"canary": {"parentRefs": WEB}}},
        {"route": {"parentRefs": WEB}},
        ["spec.rollout.canary.parentRefs"],
    ),
    (
        {"endpoints": {"ready": "/r", "modelReady": "/m"}},
        {"paths": {"ready": "/r", "modelReady": "/m"}},
        ["spec.endpoints"],
    ),
    ({"smokeTests": [TEST]}, {"smokeTests": {"tests": [TEST]}}, ["spec.smokeTests"]),
    (
        {"smokeTestPolicy": "Enforce", "smokeTests": [TEST]},
        {"smokeTests": {"policy": "Enforce", "tests": [TEST]}},
        ["spec.smokeTests", "spec.smokeTestPolicy"],
    ),
    (
        {"smokeTestPolicy": "Enforce"},
        {"smokeTests": {"policy": "Enforce"}},
        ["spec.smokeTestPolicy"],
    ),
    (
        {"disruptionBudget": "None"},
        {"disruptionBudget": {"policy": "None"}},
        ["spec.disruptionBudget"],
    ),
    (
        {"scaling": {"minReplicas": 2, "maxReplicas": 4, "target": 70}},
        {
            "scaling": {
                "minReplicas": 2,
                "maxReplicas": 4,
                "metrics": [{"type": "CPU", "target": 70}],
            }
        },
        ["spec.scaling.target"],
    ),
    (
        {"scaling": {"maxReplicas": 4, "metric": "Pods", "metricName": "asked", "target": 3}},
        by({"type": "Pods", "name": "asked", "target": 3}),
        ["spec.scaling.metric", "spec.scaling.target", "spec.scaling.metricName"],
    ),
    (
        {"scaling": {"maxReplicas": 4, "metric": "Prometheus", "target": 3, "prometheus": SERVER}},
        by({"type": "Prometheus", "target": 3, **SERVER}),
        ["spec.scaling.metric", "spec.scaling.target", "spec.scaling.prometheus"],
    ),
]  # fmt: skip
REQUESTS = {"runtime": {"resources": {"requests": {"cpu": "1"}}}}


def resource(spec, **annotations):
    return {
        **manifest({**MODEL, **REQUESTS, **spec}),
        "metadata": {"name": "iris", "annotations": annotations},
    }


def converted(*resources):
    """The resources after a conversion, and the notes."""
    result = convert_text(yaml.safe_dump_all(resources))
    return list(yaml.safe_load_all(result.text)), result.notes


@pytest.mark.parametrize(("earlier", "present", "paths"), MOVED)
def test_a_moved_field_is_named_by_lint_and_rewritten(earlier, present, paths):
    text = yaml.safe_dump(resource(earlier))

    found = lint_text("file", text, SCHEMAS)
    assert [item.path for item in found] == paths
    assert all("moorage convert" in item.message for item in found)
    result = convert_text(text)
    assert yaml.safe_load(result.text)["spec"] == {**MODEL, **REQUESTS, **present}
    assert result.notes == ()
    assert lint_text("file", result.text, SCHEMAS) == []


@pytest.mark.parametrize(("earlier", "present", "paths"), MOVED)
def test_a_converted_manifest_is_not_converted_again(earlier, present, paths):
    del present, paths
    once = convert_text(yaml.safe_dump(resource(earlier))).text

    assert convert_text(once).text == once


def test_all_fields_move_together():
    earlier, present = {}, {}
    for before, after, _ in (MOVED[0], MOVED[3], MOVED[5], MOVED[7], MOVED[10]):
        earlier |= before
        present |= after

    (after,), notes = converted(resource(earlier, team="risk"))

    assert after["spec"] == {**MODEL, **REQUESTS, **present}
    assert after["metadata"] == {"name": "iris", "annotations": {"team": "risk"}}
    assert notes == ()


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        (
            {"endpoints": {"live": "/a"}, "paths": {"live": "/b"}},
            ("spec.endpoints", "spec.paths"),
        ),
        (
            {"route": {"parentRefs": WEB}, "rollout": {"canary": {"parentRefs": WEB}}},
            ("spec.route.parentRefs",),
        ),
        (
            {"smokeTestPolicy": "Warn", "smokeTests": {"policy": "Enforce"}},
            ("spec.smokeTestPolicy", "spec.smokeTests.policy"),
        ),
        (
            {
                "scaling": {
                    "maxReplicas": 2,
                    "target": 1,
                    "metrics": [{"type": "CPU", "target": 2}],
                }
            },
            ("spec.scaling.metrics", "spec.scaling.target"),
        ),
    ],
)
def test_a_field_in_both_places_is_refused_with_its_names(spec, fields):
    with pytest.raises(ConversionError) as refused:
        converted(resource({}), resource(spec))

    assert str(refused.value).startswith("iris: ")
    assert all(field in str(refused.value) for field in fields)


@pytest.mark.parametrize(
    ("annotation", "value", "field"),
    [
        (APPROVED, "4c1f0a9d2e", {"promote": "4c1f0a9d2e"}),
        (APPROVED, "4c1f0a9d2e-12", {"promote": "4c1f0a9d2e/12"}),
        (REQUEST, "2026-03-04T05:06:07Z", {"restartedAt": "2026-03-04T05:06:07Z"}),
        (REQUEST, "2026-03-04T05:06:07.5+01:00", {"restartedAt": "2026-03-04T05:06:07.5+01:00"}),
    ],
)
def test_an_annotation_becomes_a_field_of_the_rollout(annotation, value, field):
    before = resource({"rollout": {"onFailure": "Pause"}}, **{annotation: value})

    (after,), notes = converted(before)

    assert after["spec"]["rollout"] == {"onFailure": "Pause", **field}
    assert "annotations" not in after["metadata"]
    assert notes == ()
    (found,) = lint_text("file", yaml.safe_dump(before), SCHEMAS)
    assert annotation in found.path
    assert f"spec.rollout.{next(iter(field))}" in found.message


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(APPROVED, "any step"), (APPROVED, "a-100"), (REQUEST, "claim refilled"), (REQUEST, "2026")],
)
def test_an_annotation_without_an_equivalent_is_dropped_and_noted(annotation, value):
    (after,), (note,) = converted(resource({}, **{annotation: value, "team": "risk"}))

    assert after == resource({}, team="risk")
    assert note.startswith("iris: ")
    assert annotation in note
    assert f'"{value}"' in note


@pytest.mark.parametrize(
    "other",
    [
        {**resource({"endpoints": {}}), "apiVersion": "inference.networking.x-k8s.io/v1alpha2"},
        {**resource({"endpoints": {}}), "kind": "Other"},
        resource({}),
        manifest({"scaling": {"maxReplicas": 3}}),
        {"kind": "InferenceModel", "apiVersion": "moorage.dev/v1alpha1"},
        None,
    ],
)
def test_other_resources_are_left_alone(other):
    text = yaml.safe_dump(other)

    assert convert_text(text).text == text


def test_the_models_of_a_list_are_converted():
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    listed = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [other, resource({"disruptionBudget": "None"}, **{REQUEST: "soon"})],
    }

    (after,), (note,) = converted(listed)

    assert after["items"][0] == other
    assert after["items"][1]["spec"]["disruptionBudget"] == {"policy": "None"}
    assert '"soon"' in note
