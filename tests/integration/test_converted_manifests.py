"""A real API server accepts what `moorage convert` makes of other projects' manifests."""

import json
import os
import subprocess
import sys

import pytest
import yaml

from support.control_plane import kubectl_of
from support.foreign_manifests import CONFIG_PBTXT, FOREIGN, MODEL_SETTINGS
from support.operator_cluster import install_runtimes_crd

pytestmark = pytest.mark.integration

TEXTS = {
    **{f"{each['kind']}-{at}": yaml.safe_dump(each) for at, each in enumerate(FOREIGN)},
    "config.pbtxt": CONFIG_PBTXT,
    "model-settings.json": json.dumps(MODEL_SETTINGS),
}


def converted(text):
    """The output of the command for standard input."""
    return subprocess.run(
        [sys.executable, "-m", "moorage_cli", "convert", "-"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    ).stdout


@pytest.fixture(scope="module", autouse=True)
def runtimes_crd(kubeconfig):
    """The kind that ServingRuntimes become."""
    install_runtimes_crd(kubeconfig)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_converted_manifest_is_accepted(api, text):
    manifests = list(yaml.safe_load_all(converted(text)))
    for each in manifests:
        if each["metadata"].get("namespace"):
            each["metadata"]["namespace"] = api.namespace

    answer = kubectl_of(api.kubeconfig, api.namespace).run(
        *("apply", "--dry-run=server", "--validate=strict", "-f", "-"),
        stdin=yaml.safe_dump_all(manifests),
    )

    assert answer.count("created (server dry run)") == len(manifests)
