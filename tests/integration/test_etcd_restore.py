"""A restore of etcd from a backup, while the operator keeps running."""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.operator_cluster import (
    Api,
    OperatorProcess,
    control_plane,
    eventually,
    install_crd,
    model,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

CHURN = 300
"""The number of writes after the backup, which exceeds those of the restored cluster itself."""

BACK_SECONDS = 60.0


class Cluster:
    """The test's own control plane, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "etcd"

    def end(self, *programs: str) -> None:
        """Kill programs and wait until they have ended."""
        for program in programs:
            record = json.loads((self.folder / "pids" / f"{program}.json").read_text())
            os.kill(record["pid"], signal.SIGKILL)
            path = Path(f"/proc/{record['pid']}/stat")
            eventually("it is gone", lambda path=path: not is_alive(path))

    def end_all(self) -> None:
        self.end("kube-controller-manager", "kube-apiserver", "etcd")

    def start(self) -> None:
        control_plane("up", self.folder)


def is_alive(stat: Path) -> bool:
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    folder = tmp_path / "control-plane"
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.callback(control_plane, "down", folder)
        control_plane("up", folder)
        install_crd(folder / "kubeconfig")
        yield Cluster(folder)


@pytest.fixture
def own(cluster: Cluster, tmp_path: Path) -> Iterator[OperatorProcess]:
    made = OperatorProcess(cluster.folder / "kubeconfig", tmp_path / "log")
    made.start()
    try:
        made.wait_ready()
        yield made
    finally:
        made.stop()


def replicas(api: Api, name: str) -> int:
    return int(api.get("Deployment", name).get("spec", {}).get("replicas", 0))


def test_the_operator_handles_a_restored_etcd_backup(
    cluster: Cluster, own: OperatorProcess, tmp_path: Path
) -> None:
    api = Api(cluster.folder / "kubeconfig", "default")
    for name in ("kept", "removed"):
        api.apply(model(name))
        eventually("a Deployment", lambda name=name: replicas(api, name) == 1)
        eventually("a status", lambda name=name: api.condition(name)[0])
    cluster.end_all()
    shutil.copytree(cluster.data, tmp_path / "backup")
    cluster.start()
    for number in range(CHURN):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{number}"}}
        api.apply(body)
    api.patch("InferenceModel", "kept", {"spec": {"replicas": 2}})
    eventually("followed", lambda: replicas(api, "kept") == 2, seconds=BACK_SECONDS)
    api.delete("InferenceModel", "removed")
    api.apply(model("added"))
    eventually("a Deployment", lambda: replicas(api, "added") == 1, seconds=BACK_SECONDS)
    eventually("all known", lambda: own.metric("moorage_models") == 2)

    cluster.end_all()
    shutil.rmtree(cluster.data)
    shutil.copytree(tmp_path / "backup", cluster.data)
    cluster.start()

    eventually(
        "the restore is detected", lambda: own.logged("(etcd was restored)"), seconds=BACK_SECONDS
    )
    eventually("the ready operator", lambda: own.ask("/readyz")[0] == 200, seconds=BACK_SECONDS)
    api.patch("InferenceModel", "kept", {"spec": {"replicas": 3}})
    eventually("models are followed", lambda: replicas(api, "kept") == 3, seconds=BACK_SECONDS)
    for name in ("kept", "removed"):
        api.delete("Deployment", name)
        what = f"the Deployment of {name} is restored"
        eventually(what, lambda name=name: replicas(api, name), seconds=BACK_SECONDS)
    eventually("what was added is forgotten", lambda: own.metric("moorage_models") == 2)
    assert own.is_running
