"""The objects that `moorage deploy` writes."""

import base64
import json
from datetime import UTC, datetime

import pytest
import yaml

from moorage_cli.manifests import deploying
from moorage_cli.manifests.deploying import Content, Target, content_of
from moorage_cli.manifests.lint import lint
from moorage_cli.printing.tables import Palette

TARGET = Target("iris", "models")
SMALL = content_of({"model.onnx": (3, "aa")})


@pytest.mark.parametrize(
    "files",
    [
        {"model.onnx": (3, "bb")},
        {"model.skops": (3, "aa")},
        {"model.onnx": (3, "aa"), "model.yaml": (3, "aa")},
    ],
    ids=["content", "name", "another file"],
)
def test_other_content_has_another_digest(files):
    assert content_of(files).digest != SMALL.digest
    assert content_of(dict(reversed(files.items()))).digest == content_of(files).digest


@pytest.mark.parametrize(
    ("files", "fits"),
    [
        ({"model.onnx": (1 << 20, "aa")}, True),
        ({"model.onnx": ((1 << 20) + 1, "aa")}, False),
        ({"a": (1 << 19, "aa"), "b": (1 << 19, "bb")}, True),
        ({"1/model.onnx": (3, "aa")}, False),
        ({"my model.onnx": (3, "aa")}, False),
    ],
)
def test_a_config_map_holds_up_to_a_mebibyte_of_files_with_plain_names(files, fits):
    assert deploying.fits_config_map(content_of(files)) is fits


def test_a_config_map_is_immutable_and_has_the_digest_in_its_name():
    made = deploying.config_map_of(TARGET, SMALL, {"model.onnx": b"\0\1\2"})

    assert made["metadata"]["name"] == f"iris-model-{SMALL.digest}"
    assert made["immutable"] is True
    assert base64.b64decode(made["binaryData"]["model.onnx"]) == b"\0\1\2"


@pytest.mark.parametrize(
    ("size", "expected"), [(0, "1Gi"), (1 << 20, "1Gi"), (1 << 30, "3Gi"), (10 << 30, "22Gi")]
)
def test_a_new_claim_has_room_for_an_update(size, expected):
    assert deploying.default_size(Content({"a": (size, "")}, "")) == expected


@pytest.mark.parametrize(
    ("options", "spec"),
    [
        ({}, {}),
        ({"runtime": "triton"}, {"runtime": {"name": "triton"}}),
        ({"replicas": 0}, {"replicas": 0}),
        (
            {"contract": {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1]}]}},
            {"contract": {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1]}]}},
        ),
    ],
)
def test_a_model_has_only_the_given_fields_and_is_valid(options, spec):
    made = deploying.model_of(Target("iris", "models", **options), "configmap://iris")
    report = lint([("made", yaml.safe_dump(made))], Palette(coloured=False))

    assert made["spec"] == {"model": {"uri": "configmap://iris"}, **spec}
    assert report.ok, report.text


def test_a_trusted_model_says_so():
    made = deploying.model_of(Target("iris", "models", trusted=True), "configmap://iris")

    assert made["spec"]["model"]["trusted"] is True


def test_a_private_uri_names_its_secret_and_is_valid():
    target = Target("iris", "models", credentials="models-reader")
    made = deploying.model_of(target, "s3://models/iris")
    report = lint([("made", yaml.safe_dump(made))], Palette(coloured=False))

    secret = {"secretName": "models-reader"}
    assert made["spec"]["model"] == {"uri": "s3://models/iris", "credentials": secret}
    assert report.ok, report.text


def test_an_upload_pod_is_restricted_ends_by_itself_and_prefers_the_node_of_the_model():
    pod = deploying.upload_pod(TARGET, "0a1b", "models", "runtime:1", "pass", ["registry"])
    spec, (container,) = pod["spec"], pod["spec"]["containers"]

    assert spec["activeDeadlineSeconds"] > 0
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert "sh" not in container["command"]
    assert '"moorage.dev/model": "iris"' in json.dumps(spec["affinity"])


@pytest.mark.parametrize("on_openshift", [False, True])
def test_an_upload_pod_asks_for_no_group_on_openshift(on_openshift):
    pod = deploying.upload_pod(
        TARGET, "0a1b", "models", "runtime:1", "pass", [], on_openshift=on_openshift
    )

    assert ("fsGroup" in pod["spec"]["securityContext"]) is not on_openshift


NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
OWNED = {"ownerReferences": [{"uid": "1"}]}


@pytest.mark.parametrize(
    ("metadata", "is_deleted"),
    [
        ({"name": "old", "creationTimestamp": "2026-03-04T11:59:00Z", **OWNED}, True),
        ({"name": "current", "creationTimestamp": "2026-03-01T00:00:00Z", **OWNED}, False),
        ({"name": "kept", "creationTimestamp": "2026-03-01T00:00:00Z", **OWNED}, False),
        # written by a deployment that has not set the owner: in progress, or interrupted
        ({"name": "old", "creationTimestamp": "2026-03-04T11:59:00Z"}, False),
        ({"name": "old", "creationTimestamp": "2026-03-04T10:59:00Z"}, True),
    ],
)
def test_content_is_deleted_once_no_revision_and_no_deployment_needs_it(metadata, is_deleted):
    model = deploying.model_of(TARGET, "configmap://current")
    volumes = [{"name": "model", "configMap": {"name": "kept"}}]
    kept = {"spec": {"template": {"spec": {"volumes": volumes}}}}

    unused = deploying.unused_uploads([{"metadata": metadata}], model, [kept], NOW)

    assert unused == ([metadata["name"]] if is_deleted else [])
