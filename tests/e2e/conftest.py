"""The cluster under test, as `make demo` leaves it, on this repository's local cluster.

The commands are those of the README. Set KEEP_CLUSTER=1 to keep the cluster after the run.
"""

import os
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import installation
from support.disturbances import Disturbances
from support.kubectl import Kubectl
from support.machine import traces
from support.nodes import wait_schedulable

ROOT = Path(__file__).resolve().parents[2]
CLUSTER_PROGRAM = ROOT / "localcluster" / "cluster"
DEMO_TIMEOUT_SECONDS = 40 * 60


@dataclass
class Demo:
    """The output of `make demo`, the environment that it prints, and unannounced restarts."""

    output: str
    env: dict[str, str]
    disturbances: Disturbances
    out_of_order: str = ""
    """Why the node accepts no pods, once it did not recover in time. No later test waits again."""

    def require_node(self) -> None:
        """Fail the test if the node accepts no pods."""
        if not self.out_of_order:
            try:
                wait_schedulable(Kubectl(self.env, "default"))
            except AssertionError as error:
                self.out_of_order = str(error)
        assert not self.out_of_order, self.out_of_order


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
    assert done.returncode == 0, f"make {target} failed:\n{done.stdout[-1500:]}"
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
    """`make demo`, and at the end `make demo-down`, which must leave nothing behind."""
    before = traces()
    output = run_make("demo")
    env = cluster_environment()
    made = Demo(output, env, Disturbances(env))
    yield made
    found = made.disturbances.found
    if not os.environ.get("KEEP_CLUSTER"):
        run_make("demo-down")
        assert traces() - before == set()
        assert not (ROOT / "build" / "demo").exists()
    heading = "containers restarted or logged errors, and no test had announced it:"
    assert found == [], "\n".join([heading, *found])


@pytest.fixture(autouse=True)
def namespaces(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Namespaces of the test, removed after it.

    Restarts and errors of the product's containers that the test has not announced are noted
    before that.
    """
    made: list[str] = []
    if "demo" not in request.fixturenames:
        yield made
        return
    demo: Demo = request.getfixturevalue("demo")
    demo.require_node()
    demo.disturbances.note()
    yield made
    demo.disturbances.look(
        request.node.nodeid,
        made,
        expects_restarts=request.node.get_closest_marker("expects_restarts") is not None,
        expected_errors=[each.args[0] for each in request.node.iter_markers("expects_errors")],
    )
    for namespace in made:
        Kubectl(demo.env, "default").run("delete", "namespace", namespace, "--wait=false")


@pytest.fixture
def kubectl(demo: Demo, namespaces: list[str]) -> Kubectl:
    """kubectl in the test's own namespace, under the restricted Pod Security profile."""
    namespace = f"e2e-{uuid.uuid4().hex[:8]}"
    cluster = Kubectl(demo.env, "default")
    cluster.run("create", "namespace", namespace)
    cluster.run("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    namespaces.append(namespace)
    return Kubectl(demo.env, namespace)


@pytest.fixture
def own_cluster(demo: Demo) -> Iterator[dict[str, str]]:
    """The environment of a cluster without operator and models; the demo's operator returns."""
    with installation.own_cluster(demo.env) as env:
        yield env


@pytest.fixture
def default(demo: Demo) -> Kubectl:
    """kubectl in the default namespace, as in the README."""
    return Kubectl(demo.env, "default")
