"""A model on a volume: `pvc://` as in the README, with a hostPath volume of the test."""

import shutil
from collections.abc import Iterator

import pytest

from support.claims import models_claim
from support.kubectl import KIND, Kubectl
from support.manifests import DIGITS, inference_model

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

FAST = {"periodSeconds": 1}


@pytest.fixture
def models(kubectl, tmp_path) -> Iterator[Kubectl]:
    """A bound claim `models` with an empty folder; `tmp_path` is the folder."""
    with models_claim(kubectl, tmp_path):
        yield kubectl


@pytest.mark.parametrize(
    ("path", "files"),
    [
        ("digits", "digits/1/model.onnx"),
        ("some/where/digits.onnx", "some/where/digits.onnx"),
    ],
    ids=["folder", "file"],
)
def test_a_model_on_a_volume_becomes_ready_with_its_metadata(models, tmp_path, path, files):
    (tmp_path / files).parent.mkdir(parents=True)
    shutil.copy(DIGITS / "model.onnx", tmp_path / files)

    models.apply(inference_model("digits", model={"uri": f"pvc://models/{path}"}, health=FAST))
    models.wait_condition("digits", "Ready", "True", "Serving", seconds=90)

    status = models.get(KIND, "digits")["status"]
    assert [item["name"] for item in status["model"]["inputs"]] == ["image"]
    (pod,) = models.items("pods", "moorage.dev/model=digits")
    claims = [item["persistentVolumeClaim"] for item in pod["spec"]["volumes"]
              if "persistentVolumeClaim" in item]  # fmt: skip
    assert claims == [{"claimName": "models", "readOnly": True}]


@pytest.mark.expects_restarts
def test_a_model_that_arrives_on_the_volume_later_is_served(models, tmp_path):
    models.apply(inference_model("digits", model={"uri": "pvc://models/digits"}, health=FAST))
    failed = models.wait_condition("digits", "Ready", "False", "CrashLoopBackOff")
    assert "'/mnt/models/digits'" in failed["message"]

    # the runtime sees all of it or nothing
    (tmp_path / "new" / "1").mkdir(parents=True)
    shutil.copy(DIGITS / "model.onnx", tmp_path / "new" / "1" / "model.onnx")
    (tmp_path / "new").rename(tmp_path / "digits")

    models.wait_condition("digits", "Ready", "True", "Serving", seconds=120)
