"""Printed commands that install the chart, and a cluster without the operator to run them on."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

__all__ = ["NAMESPACE", "own_cluster", "shell", "uninstall"]

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = "moorage-system"


def shell(command: str, env: Mapping[str, str]) -> str:
    """Run a printed command in the repository's root."""
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=ROOT,
        env=dict(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=1800,
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}"
    return done.stdout


def uninstall(env: Mapping[str, str]) -> None:
    """Remove the release and its namespace, if they are there."""
    shell(f"helm uninstall moorage --namespace {NAMESPACE} --wait --ignore-not-found", env)
    shell(f"kubectl delete namespace {NAMESPACE} --ignore-not-found", env)


@contextmanager
def own_cluster(env: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The environment of the demo's cluster without operator and models; its operator returns."""
    models = "kubectl delete inferencemodels --all --namespace default --cascade=foreground"
    shell(models, env)
    uninstall(env)
    yield dict(env)
    uninstall(env)
    local = {**os.environ, "CLUSTER": "local"}
    subprocess.run(
        [sys.executable, ROOT / "demo" / "demo.py", "install"], env=local, check=True, timeout=900
    )
