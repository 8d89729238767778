"""The charts as rendered by helm, without a cluster."""

import subprocess
from pathlib import Path
from typing import Any

import yaml

from support.chart_rights import CHART, NAMESPACE, PROGRAMS, RELEASE

Objects = dict[tuple[str, str], dict[str, Any]]


def template(
    *words: str, chart: Path = CHART, release: str = RELEASE
) -> subprocess.CompletedProcess[str]:
    """Run `helm template` with further arguments, with any result."""
    # helm's own guess, without a cluster, is a version that the chart does not support
    command = [PROGRAMS / "helm", "template", release, chart, "--namespace", NAMESPACE]
    command += ["--kube-version", "1.34", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def rendered(*words: str) -> Objects:
    """Kind and name to object, with images from `localhost`."""
    done = template("--set", "image.registry=localhost", *words)
    assert done.returncode == 0, done.stderr
    objects = [item for item in yaml.safe_load_all(done.stdout) if item]
    return {(item["kind"], item["metadata"]["name"]): item for item in objects}


def refusal(*words: str, **options: Any) -> str:
    """The error of helm for invalid values."""
    done = template(*words, **options)
    assert done.returncode != 0, done.stdout[:500]
    return done.stderr
