"""The cluster under test: what `make demo` leaves, on this repository's local cluster.

The commands are the README's. Set KEEP_CLUSTER=1 to keep the cluster after the run.
"""

import os
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.kubectl import Kubectl
from support.machine import traces

ROOT = Path(__file__).resolve().parents[2]
CLUSTER_PROGRAM = ROOT / "localcluster" / "cluster"
DEMO_TIMEOUT_SECONDS = 40 * 60


@dataclass(frozen=True)
class Demo:
    """What `make demo` printed, and the environment that it told the user to use."""

    output: str
    env: dict[str, str]


def run_make(target: str) -> str:
    done = subprocess.run(
        ["make", target],
        cwd=ROOT,
        env={**os.environ, "CLUSTER": "local"},
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEMO_TIMEOUT_SECONDS,
    )
    log = ROOT / "build" / f"e2e-{target}.log"
    log.parent.mkdir(exist_ok=True)
    log.write_text(done.stdout)
    assert done.returncode == 0, f"make {target} failed:\n{done.stdout[-4000:]}"
    return done.stdout


def cluster_environment() -> dict[str, str]:
    """The environment after `eval "$(localcluster/cluster env)"`."""
    text = subprocess.run(
        ["sh", "-c", f'eval "$({CLUSTER_PROGRAM} env)" && env -0'],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return dict(line.split("=", 1) for line in text.split("\0") if "=" in line)


@pytest.fixture(scope="session")
def demo() -> Iterator[Demo]:
    """`make demo`, and at the end `make demo-down`, which has to leave nothing."""
    before = traces()
    output = run_make("demo")
    yield Demo(output, cluster_environment())
    if not os.environ.get("KEEP_CLUSTER"):
        run_make("demo-down")
        assert traces() - before == set()
        assert not (ROOT / "build" / "demo").exists()


@pytest.fixture
def kubectl(demo: Demo) -> Iterator[Kubectl]:
    """kubectl in a namespace of the test's own, under the restricted Pod Security profile."""
    namespace = f"e2e-{uuid.uuid4().hex[:8]}"
    cluster = Kubectl(demo.env, "default")
    cluster.run("create", "namespace", namespace)
    cluster.run("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    yield Kubectl(demo.env, namespace)
    cluster.run("delete", "namespace", namespace, "--wait=false")


@pytest.fixture
def default(demo: Demo) -> Kubectl:
    """kubectl in the default namespace, where the README works."""
    return Kubectl(demo.env, "default")
