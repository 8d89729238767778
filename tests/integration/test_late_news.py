"""A late watch event of a model, on a real API server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.operator_cluster import (
    HELD_WATCH,
    Api,
    Kubelet,
    ModelServer,
    OperatorProcess,
    eventually,
    model,
    settle,
)

pytestmark = pytest.mark.integration


@pytest.fixture
def held(tmp_path: Path) -> Path:
    """While this file exists, no model events are handled."""
    return tmp_path / "held"


@pytest.fixture
def slow(operator: OperatorProcess, held: Path, tmp_path: Path) -> Iterator[OperatorProcess]:
    """An operator with such a watch, instead of the other one."""
    operator.stop()
    made = OperatorProcess(operator.kubeconfig, tmp_path / "log", program=(HELD_WATCH, held))
    try:
        made.start()
        made.wait_ready()
        yield made
    finally:
        held.unlink(missing_ok=True)
        made.stop()
        operator.start()


def test_an_edit_that_arrives_after_our_own_status_is_applied(
    slow: OperatorProcess, held: Path, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    runtime = {"image": "example/server:1", "ports": {"http": server.port}}
    api.apply(model("iris", runtime=runtime))
    (pod,) = eventually("a pod", lambda: kubelet.pods("iris"))
    kubelet.run(pod)
    settle(api, "iris")

    held.touch()
    api.patch("InferenceModel", "iris", {"spec": {"replicas": 2}})
    kubelet.run(pod, ready=False)  # causes a status write, whose response contains the edit

    eventually("followed", lambda: api.get("Deployment", "iris")["spec"]["replicas"] == 2)
