"""Two operators on one API server: one works, the other goes on when it ends."""

import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.chart_rights import LEASE, operators_kubeconfig
from support.operator_cluster import (
    Api,
    OperatorProcess,
    control_plane,
    eventually,
    install_crd,
    model,
)

pytestmark = pytest.mark.integration


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Api, list[OperatorProcess]]]:
    """A control plane of the test's own with two operators, and its default namespace."""
    folder = tmp_path / "control-plane"
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.callback(control_plane, "down", folder)
        control_plane("up", folder)
        kubeconfig = folder / "kubeconfig"
        install_crd(kubeconfig)
        rights = operators_kubeconfig(kubeconfig, tmp_path)
        operators = [
            OperatorProcess(rights, tmp_path / f"operator-{name}.log", options=LEASE)
            for name in ("a", "b")
        ]
        for operator in operators:
            operator.start()
            stack.callback(stop, operator)
            operator.wait_ready()
        yield Api(kubeconfig, "default"), operators


def stop(operator: OperatorProcess) -> None:
    if operator.is_running:
        operator.stop()


def leads(operator: OperatorProcess) -> bool:
    return operator.is_running and operator.metric("moorage_operator_leading") == 1


def leader_of(operators: list[OperatorProcess]) -> OperatorProcess:
    return eventually(
        "one leads", lambda: next((each for each in operators if leads(each)), None), seconds=40
    )


def child_of(api: Api, name: str) -> object:
    return eventually(
        f"the Deployment of {name}",
        lambda: [d for d in api.list("Deployment") if d["metadata"]["name"] == name],
        seconds=40,
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_standby_goes_on_where_the_leader_ended(
    pair: tuple[Api, list[OperatorProcess]], number: signal.Signals
) -> None:
    api, operators = pair
    leader = leader_of(operators)
    (standby,) = [each for each in operators if each is not leader]
    api.apply(model("first"))
    child_of(api, "first")
    assert leader.metric("moorage_child_writes_total") > 0
    assert standby.metric("moorage_child_writes_total") == 0
    assert not leads(standby)

    leader.stop(number)
    api.apply(model("second"))

    child_of(api, "second")
    assert leads(standby)
    first = api.get("InferenceModel", "first")["status"]["conditions"]
    assert {each["observedGeneration"] for each in first} == {1}
