"""Abort, restart, rollback, pause and wait on a real API server, through the command-line tool."""

import contextlib
import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.iris import IMPATIENT, alive, image_of, message, pod_of
from support.operator_cluster import (
    Api,
    Kubelet,
    ModelServer,
    OperatorProcess,
    eventually,
    model,
    settle,
)

pytestmark = pytest.mark.integration

MOORAGE = Path(sys.executable).parent / "moorage"
CHILDREN = ("Deployment", "Service", "ReplicaSet", "ControllerRevision", "PodDisruptionBudget")


def moorage(api: Api, name: str, *arguments: str) -> tuple[int, str]:
    """The exit status and both outputs of the tool for the test's namespace."""
    done = subprocess.run(
        [MOORAGE, name, "iris", *arguments, "--kubeconfig", api.kubeconfig, "-n", api.namespace],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


def iris(server: ModelServer, image: str, **spec: Any) -> dict[str, Any]:
    runtime = {"image": image, "ports": {"http": server.port}}
    return model("iris", runtime=runtime, health=IMPATIENT, **spec)


def revision_of(pod: dict[str, Any]) -> str:
    return pod["metadata"]["labels"]["moorage.dev/revision"]


@pytest.fixture
def served(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> dict[str, Any]:
    """The pod of a model that is up to date."""
    api.apply(iris(server, "example/good:1"))
    pod = pod_of(kubelet, "example/good:1")
    kubelet.run(pod)
    settle(api, "iris")
    return pod


def up_to_date(api: Api) -> tuple[str, str]:
    return api.condition("iris", "UpToDate")


def revisions(api: Api) -> dict[str, Any]:
    return api.get("InferenceModel", "iris")["status"]["revisions"]


def versions(api: Api) -> dict[str, str]:
    """The specs of all children; their statuses and other metadata belong to others."""
    return {
        f"{kind}/{body['metadata']['name']}": json.dumps(body.get("spec"), sort_keys=True)
        for kind in CHILDREN
        for body in api.list(kind)
    }


def test_an_aborted_rollout_returns_and_stays_until_abort_is_removed(
    served: dict[str, Any],
    operator: OperatorProcess,
    api: Api,
    kubelet: Kubelet,
    server: ModelServer,
) -> None:
    code, text = moorage(api, "abort")
    assert code == 1
    assert "no rollout is in progress" in text

    api.apply(iris(server, "example/slow:1"))
    new = pod_of(kubelet, "example/slow:1")
    candidate = revision_of(new)
    eventually("it is recorded", lambda: revisions(api).get("candidate") == candidate)
    code, text = moorage(api, "wait", "--timeout", "1")
    assert (code, "not up to date and ready within 1 seconds" in text) == (1, True)
    code, text = moorage(api, "abort")
    assert (code, candidate in text) == (0, True)

    eventually("aborted", lambda: up_to_date(api) == ("False", "RolloutAborted"))
    eventually("one pod", lambda: [image_of(pod) for pod in alive(kubelet)] == ["example/good:1"])
    assert alive(kubelet)[0]["metadata"]["uid"] == served["metadata"]["uid"]
    assert revisions(api)["rejected"]["reason"] == "RolloutAborted"
    code, text = moorage(api, "wait", "--timeout", "20")
    assert (code, "RolloutAborted" in text) == (3, True)

    operator.stop()
    operator.start()
    operator.wait_ready()
    api.patch("InferenceModel", "iris", {"spec": {"replicas": 2}})
    eventually("a second pod", lambda: len(alive(kubelet)) == 2)
    assert {image_of(pod) for pod in alive(kubelet)} == {"example/good:1"}

    api.patch("InferenceModel", "iris", {"spec": {"replicas": 1, "rollout": {"abort": None}}})
    kubelet.run(pod_of(kubelet, "example/slow:1"))
    eventually("up to date", lambda: up_to_date(api) == ("True", "RolloutComplete"))
    assert moorage(api, "wait", "--timeout", "20")[0] == 0


def test_a_rollback_writes_the_spec_of_the_revision_that_serves(
    served: dict[str, Any], api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    before = api.get("InferenceModel", "iris")["spec"]
    edited = iris(server, "example/slow:1", nodeSelector={"disk": "ssd"}, replicas=2)
    api.apply(edited)
    candidate = revision_of(pod_of(kubelet, "example/slow:1"))
    eventually("it is recorded", lambda: revisions(api).get("candidate") == candidate)

    code, text = moorage(api, "rollback", "--to", "misspelt")
    assert (code, revision_of(served) in text) == (1, True)
    code, text = moorage(api, "rollback", "--dry-run")
    paths = [each["path"] for each in json.loads(text)]
    assert (code, paths) == (
        0,
        ["/metadata/resourceVersion", "/spec/nodeSelector", "/spec/runtime"],
    )
    assert api.get("InferenceModel", "iris")["spec"] != {**before, "replicas": 2}

    assert moorage(api, "rollback")[0] == 0
    assert api.get("InferenceModel", "iris")["spec"] == {**before, "replicas": 2}
    eventually("the first revision", lambda: revisions(api)["current"] == revision_of(served))
    assert revisions(api)["unproven"] == [candidate]
    code, text = moorage(api, "rollback")
    assert (code, f"revision {candidate}, which ran before" in text) == (1, True), text
    code, text = moorage(api, "rollback", "--to", candidate)
    assert code == 0
    assert pod_of(kubelet, "example/slow:1")


def test_after_a_complete_rollout_a_rollback_restores_the_revision_before(
    served: dict[str, Any], api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    code, text = moorage(api, "rollback")
    assert (code, "no earlier revision" in text) == (1, True)
    first = api.get("InferenceModel", "iris")["spec"]
    api.apply(iris(server, "example/good:2", nodeSelector={"disk": "ssd"}))
    pod = pod_of(kubelet, "example/good:2")
    kubelet.run(pod)
    eventually("the second one", lambda: revisions(api)["lastGood"] == revision_of(pod))
    second = api.get("InferenceModel", "iris")["spec"]

    code, text = moorage(api, "rollback")
    assert (code, f"revision {revision_of(served)} again" in text) == (0, True)
    assert f"again instead of {revision_of(pod)}: it ran before" in text
    assert api.get("InferenceModel", "iris")["spec"] == first
    kubelet.run(pod_of(kubelet, "example/good:1"))
    eventually("the first one", lambda: revisions(api)["lastGood"] == revision_of(served))

    # the ReplicaSet of the second revision is the newer one, but ran before; and a restart is
    # another revision of the same spec
    assert moorage(api, "restart")[0] == 0
    eventually("a restart", lambda: revisions(api)["current"] != revision_of(served))
    eventually("a pod of it", lambda: run_all(kubelet, "example/good:1") > 1)
    eventually("it serves", lambda: up_to_date(api) == ("True", "RolloutComplete"))
    code, text = moorage(api, "rollback")
    assert (code, f"revision {revision_of(pod)} again" in text) == (0, True)
    restored = {**api.get("InferenceModel", "iris")["spec"], "rollout": None}
    assert restored == {**second, "rollout": None}


def test_a_restart_replaces_the_pods_of_the_same_spec(
    served: dict[str, Any], api: Api, kubelet: Kubelet
) -> None:
    assert moorage(api, "restart")[0] == 0

    new = eventually(
        "a new pod",
        lambda: [pod for pod in alive(kubelet) if revision_of(pod) != revision_of(served)],
    )[0]
    assert image_of(new) == image_of(served)
    former = ("True", "ServingPreviousRevision")
    eventually("the former serves", lambda: api.condition("iris") == former)
    kubelet.run(new)
    assert moorage(api, "wait", "--timeout", "20")[0] == 0
    eventually("one pod", lambda: len(alive(kubelet)) == 1)


def test_nothing_is_written_to_the_children_of_a_paused_model(
    served: dict[str, Any], api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    assert moorage(api, "pause")[0] == 0
    eventually("it is paused", lambda: api.condition("iris", "Paused") == ("True", "Paused"))
    assert api.condition("iris") == ("True", "Serving")
    assert up_to_date(api) == ("True", "RolloutComplete")
    assert "Note: Paused" in moorage(api, "why")[1]
    server.ready = False
    eventually("its answers are seen", lambda: api.condition("iris", "ModelReady")[0] == "False")
    server.ready = True
    eventually("it serves", lambda: api.condition("iris") == ("True", "Serving"))

    repaired = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 77}}}}
    api.patch("Deployment", "iris", repaired, "strategic-merge")
    kubelet.run(
        eventually(
            "the repaired pod",
            lambda: [
                pod for pod in alive(kubelet) if pod["spec"]["terminationGracePeriodSeconds"] == 77
            ],
        )[0]
    )
    eventually("one pod", lambda: len(alive(kubelet)) == 1)
    api.delete("Service", "iris")
    eventually(
        "its children are as they are", lambda: 'create Service "iris"' in message(api, "Paused")
    )
    before = versions(api)
    edited = {"replicas": 2, "runtime": {"image": "example/good:2"}}
    api.patch("InferenceModel", "iris", {"spec": edited})
    eventually("the edit waits", lambda: up_to_date(api) == ("False", "Paused"))
    assert 'change Deployment "iris"' in message(api, "Paused")
    assert api.condition("iris", "Stalled") == ("True", "Paused")
    code, text = moorage(api, "wait", "--timeout", "20")
    assert (code, "Paused" in text) == (3, True)

    assert api.condition("iris") == ("False", "Paused")
    assert "the Service does not exist" in message(api, "Ready")
    assert versions(api) == before

    assert moorage(api, "resume")[0] == 0
    new = pod_of(kubelet, "example/good:2")
    assert new["spec"]["terminationGracePeriodSeconds"] != 77
    eventually("two pods", lambda: run_all(kubelet, "example/good:2") == 2)
    assert moorage(api, "wait", "--timeout", "20")[0] == 0
    assert api.get("Service", "iris")
    assert api.condition("iris", "Paused") == ("", "")


def run_all(kubelet: Kubelet, image: str) -> int:
    """Run the pods of an image; their number."""
    pods = [pod for pod in alive(kubelet) if image_of(pod) == image]
    for pod in pods:
        if not pod["status"].get("containerStatuses"):
            kubelet.run(pod)
    return len(pods)


def test_a_paused_model_is_created_without_children_and_deleted_with_them(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    api.apply(iris(server, "example/good:1", paused=True))
    eventually("it is paused", lambda: api.condition("iris") == ("False", "Paused"))
    assert versions(api) == {}

    assert moorage(api, "resume")[0] == 0
    kubelet.run(pod_of(kubelet, "example/good:1"))
    settle(api, "iris")
    assert moorage(api, "pause")[0] == 0
    eventually("it is paused", lambda: api.condition("iris", "Paused")[0] == "True")
    api.delete("InferenceModel", "iris")

    eventually("everything is gone", lambda: not versions(api) and not kubelet.pods("iris"))


def test_a_rollout_is_redrawn_on_a_terminal_until_it_is_done_or_has_failed(
    served: dict[str, Any], api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    api.apply(iris(server, "example/good:2"))
    new = pod_of(kubelet, "example/good:2")
    eventually("a rollout", lambda: revisions(api).get("candidate") == revision_of(new))
    code, text = moorage(api, "rollout")
    names = [line.split()[1] for line in text.splitlines() if line.startswith(("├─", "└─"))]
    assert (code, names) == (1, [revision_of(new), revision_of(served)])

    with watched(api) as (process, screen):
        eventually("the candidate is drawn", lambda: "candidate" in screen())
        kubelet.run(new)
        assert process.wait(60) == 0, screen()
    seen = screen()
    assert seen.count("REVISION") > 1
    assert "\x1b[1A" in seen
    assert "RolloutComplete" in seen
    assert "previous" in seen.rpartition("REVISION")[2]
    assert seen.rstrip().endswith("\x1b[?25h")

    api.apply(iris(server, "example/slow:1"))
    slow = pod_of(kubelet, "example/slow:1")
    eventually("another", lambda: revisions(api).get("candidate") == revision_of(slow))
    with watched(api) as (process, screen):
        eventually("the candidate is drawn", lambda: revision_of(slow) in screen())
        assert moorage(api, "abort")[0] == 0
        assert process.wait(60) == 3, screen()
    assert "RolloutAborted" in screen().rpartition("Cause:")[2]
    assert moorage(api, "rollout", "--watch")[0] == 3


@contextlib.contextmanager
def watched(api: Api) -> Iterator[tuple["subprocess.Popen[bytes]", Callable[[], str]]]:
    """`moorage rollout --watch` on a terminal of its own, and what it has written there."""
    command = [MOORAGE, "rollout", "iris", "--watch"]
    command += ["--kubeconfig", api.kubeconfig, "-n", api.namespace]
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    written = bytearray()

    def read() -> None:
        with contextlib.suppress(OSError):  # the other side is closed
            while data := os.read(ours, 65536):
                written.extend(data)

    environment = {**os.environ, "TERM": "xterm"}
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield process, lambda: written.decode("utf-8", "replace")
    finally:
        process.kill()
        process.wait(20)
        reader.join(20)
        os.close(ours)
