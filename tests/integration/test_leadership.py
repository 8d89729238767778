"""Two operators on one API server: one is the leader, and the other takes over when it ends."""

import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from moorage_operator.kube import lease
from support.chart_rights import LEASE, NAMESPACE, operators_kubeconfig
from support.control_plane import kubectl_of
from support.operator_cluster import (
    Api,
    OperatorProcess,
    control_plane,
    eventually,
    install_crd,
    model,
)
from support.swallowing_proxy import kubeconfig_through, swallowing_proxy

pytestmark = pytest.mark.integration

QUIET_LOOKS = 80
"""At 50 checks per second: longer than the pause between two statuses of a model."""


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Api, list[OperatorProcess]]]:
    """The test's own control plane with two operators, and its default namespace."""
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
def test_a_standby_takes_over_from_the_leader(
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


def test_a_leader_that_was_stopped_writes_nothing_when_it_resumes(
    pair: tuple[Api, list[OperatorProcess]],
) -> None:
    api, operators = pair
    leader = leader_of(operators)
    (standby,) = [each for each in operators if each is not leader]
    api.apply(model("first"))
    child_of(api, "first")
    # An answer in flight when the process stops would be read after it resumes.
    versions: list[str] = []

    def is_quiet() -> bool:
        versions.append(api.get("InferenceModel", "first")["metadata"]["resourceVersion"])
        return len(versions) > QUIET_LOOKS and len(set(versions[-QUIET_LOOKS:])) == 1

    eventually("nothing is written any more", is_quiet)

    with leader.held():
        eventually("the standby leads", lambda: leads(standby), seconds=60)
        api.patch("InferenceModel", "first", {"spec": {"replicas": 2}})
        eventually("followed", lambda: api.get("Deployment", "first")["spec"]["replicas"] == 2)
        api.apply(model("second"))
        child_of(api, "second")
        before = len(leader.log.read_text())

    eventually("the leader stops", lambda: not leader.is_running, seconds=20)
    after = leader.log.read_text()[before:]
    assert "is held by" in after or "was not renewed in time" in after
    assert "status written" not in after
    assert api.get("Deployment", "first")["spec"]["replicas"] == 2
    assert leads(standby)


def test_an_isolated_leader_ends_before_its_lease_expires(
    kubeconfig: Path, tmp_path: Path
) -> None:
    with swallowing_proxy(kubeconfig) as proxy:
        rights = operators_kubeconfig(kubeconfig, tmp_path)
        through = kubeconfig_through(proxy, rights, tmp_path)
        leader = OperatorProcess(through, tmp_path / "operator.log", options=LEASE)
        leader.start()
        try:
            eventually("it leads", lambda: leads(leader), seconds=40)
            proxy.swallow(new=True)
            cut = time.monotonic()
            eventually("the lease is lost", lambda: leader.logged("(was not renewed in time)"))
            assert time.monotonic() - cut < lease.DURATION_SECONDS - 2
            eventually("the leader stops", lambda: not leader.is_running)
        finally:
            stop(leader)


def test_a_lease_taken_by_another_process_ends_the_former_leader(
    kubeconfig: Path, tmp_path: Path
) -> None:
    rights = operators_kubeconfig(kubeconfig, tmp_path)
    leader = OperatorProcess(rights, tmp_path / "operator.log", options=LEASE)
    leader.start()
    try:
        eventually("it leads", lambda: leads(leader), seconds=40)
        kubectl_of(kubeconfig, NAMESPACE).run(
            *("patch", "lease", "moorage-operator", "--type=merge"),
            *("-p", '{"spec":{"holderIdentity":"another"}}'),
        )
        began = time.monotonic()
        eventually("the leader stops", lambda: not leader.is_running)
        assert time.monotonic() - began < lease.WRITE_SECONDS
        assert "is held by another" in leader.log.read_text()
    finally:
        stop(leader)
