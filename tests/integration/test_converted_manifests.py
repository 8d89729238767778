"""A real API server accepts what `moorage convert` makes of other projects' manifests."""

import json
import os
import subprocess
import sys

import pytest

from support.control_plane import kubectl_of
from support.foreign_manifests import CONFIG_PBTXT, FOREIGN, MODEL_SETTINGS
from support.operator_cluster import install_runtimes_crd

pytestmark = pytest.mark.integration

SOURCES = {
    **{f"{each['kind']}-{at}": each for at, each in enumerate(FOREIGN)},
    "config.pbtxt": CONFIG_PBTXT,
    "model-settings.json": MODEL_SETTINGS,
}


def written(source, namespace):
    """The text of a source; a resource that has a namespace gets this one."""
    if isinstance(source, str):
        return source
    metadata = source.get("metadata", {})
    own = {**metadata, "namespace": namespace} if "namespace" in metadata else metadata
    return json.dumps({**source, "metadata": own} if metadata else source)


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


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_the_output_is_accepted_as_it_is(api, source):
    text = converted(written(source, api.namespace))

    answer = kubectl_of(api.kubeconfig, api.namespace).run(
        *("apply", "--dry-run=server", "--validate=strict", "-f", "-"), stdin=text
    )

    assert answer.count("created (server dry run)") == 1
