"""A real operator with hostile model servers: it survives, and other models are not affected."""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.liars import attacking
from support.operator_cluster import Api, Kubelet, OperatorProcess, eventually, model

pytestmark = [pytest.mark.integration, pytest.mark.timeout(90)]

NAMESPACE = "hostile"
HTTP, GRPC = "HTTP", "GRPC"
# The program, the declared protocol and transport of its model, and the expected reason.
# A server that answers correctly in its protocol is Serving: no poll can detect more.
PROGRAMS = [
    ("interim-flood", "OpenInference", HTTP, "ProtocolMismatch"),
    ("chunks-of-one-byte", "OpenInference", HTTP, "ProtocolMismatch"),
    ("trailers-without-end", "OpenInference", HTTP, "ProtocolMismatch"),
    ("json-of-lists-where-there-is-room", "OpenInference", HTTP, "ModelLoadFailed"),
    ("json-deep", "OpenInference", HTTP, "ModelLoading"),
    ("json-huge", "OpenInference", HTTP, "ProtocolMismatch"),
    ("another-model", "OpenInference", HTTP, "ModelNotFound"),
    ("yaml-alias-bomb", "GRPS", HTTP, "Serving"),
    ("h2-continuation-flood", "OpenInference", GRPC, "ProtocolMismatch"),
    ("h2-ping-flood", "OpenInference", GRPC, "ProtocolMismatch"),
    ("protobuf-of-empty-messages", "OpenInference", GRPC, "ProtocolMismatch"),
]
SILENT_MODELS = 20
SILENT_TIMEOUT_SECONDS = 60

EDIT_LIMIT_SECONDS = 15.0
LIVEZ_LIMIT_SECONDS = 5.0
LATE_LIMIT_SECONDS = 0.1
LATE_SHARE = 0.05
"""There are about a hundred polls here, and the machine may be busy with other tests. The 99th
percentile of thousands of polls, compared with a run without attackers, is in
tests/conformance."""
GROWTH_LIMIT_MIB = 128


@pytest.fixture
def hostile(kubeconfig: Path) -> Iterator[Api]:
    """The API in the namespace of the attackers."""
    made = Api(kubeconfig, NAMESPACE)
    made.of("Namespace").create(
        body={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    )
    # The controller manager makes it; pods are refused before.
    eventually("the default service account", lambda: made.get("ServiceAccount", "default"))
    yield made
    for each in made.list("InferenceModel"):
        made.delete("InferenceModel", each["metadata"]["name"])


class Livez:
    """Continuous queries of /livez."""

    def __init__(self, operator: OperatorProcess) -> None:
        self.codes: set[int] = set()
        self.asked = 0
        self.slowest = 0.0
        self._operator = operator
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)

    def _ask(self) -> None:
        while not self._stop.wait(0.1):
            began = time.monotonic()
            self.codes.add(self._operator.ask("/livez")[0])
            self.slowest = max(self.slowest, time.monotonic() - began)
            self.asked += 1

    @contextmanager
    def asking(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join(10)


class Memory:
    """The resident memory of a process, and its peak since then."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")
        (self._folder / "clear_refs").write_text("5")  # resets the peak
        self.before = self._mib("VmRSS")

    def peak(self) -> float:
        return self._mib("VmHWM")

    def _mib(self, field: str) -> float:
        status = (self._folder / "status").read_text()
        found = re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)
        assert found
        return int(found[1]) / 1024


def polls(operator: OperatorProcess) -> tuple[float, float]:
    """The number of all polls, and of those that started in time."""
    name = "moorage_poll_late_seconds"
    punctual = operator.metric(f"{name}_bucket", f'le="{LATE_LIMIT_SECONDS}"')
    return operator.metric(f"{name}_count"), punctual


def pods_run(api: Api, kubelet: Kubelet, name: str) -> list[dict[str, Any]]:
    """Report every pending pod of the model as running."""
    waiting = [pod for pod in kubelet.pods(name) if not pod["status"].get("podIP")]
    for pod in waiting:
        kubelet.run(pod)
    return waiting


def edit_seconds(api: Api, kubelet: Kubelet, number: int) -> float:
    """The time of the good model from an edit of its pods to Ready."""
    began = time.monotonic()
    metadata = {"metadata": {"labels": {"edit": str(number)}}}
    api.patch("InferenceModel", "iris", {"spec": {"podTemplate": metadata}})

    def is_served() -> bool:
        pods_run(api, kubelet, "iris")
        return api.condition("iris") == ("True", "Serving") and (
            api.condition("iris", "UpToDate")[0] == "True"
        )

    eventually("the edited model is Ready", is_served, seconds=80)
    return time.monotonic() - began


def test_hostile_servers_affect_neither_the_operator_nor_other_models(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, hostile: Api
) -> None:
    attacked = Kubelet(hostile)
    with ExitStack() as stack:
        good = stack.enter_context(attacking("good"))
        runtime = {"image": "example/server:1", "ports": {"http": good}}
        api.apply(model("iris", runtime=runtime))
        eventually("a pod", lambda: pods_run(api, kubelet, "iris"))
        eventually("Ready", lambda: api.condition("iris") == ("True", "Serving"))
        before_seconds = edit_seconds(api, kubelet, 0)

        pid = operator.pid
        memory = Memory(pid)
        asked, punctual = polls(operator)
        livez = Livez(operator)
        stack.enter_context(livez.asking())
        expected = start_attack(hostile, attacked, stack)
        under_attack = [edit_seconds(api, kubelet, number) for number in (1, 2)]

        for name, reason in expected.items():
            eventually(f"{name}: {reason}", lambda n=name, r=reason: reason_of(hostile, n) == r)
        under_attack.append(edit_seconds(api, kubelet, 3))
        asked_then, punctual_then = polls(operator)
        polled, in_time = asked_then - asked, punctual_then - punctual
        growth = memory.peak() - memory.before

    print(  # noqa: T201
        f"\nedit to Ready: {before_seconds:.1f} s before,"
        f" {', '.join(f'{each:.1f} s' for each in under_attack)} under attack;"
        f" {polled:.0f} polls, {polled - in_time:.0f} of them late;"
        f" /livez asked {livez.asked} times, slowest {1000 * livez.slowest:.0f} ms;"
        f" RSS {memory.before:.0f} MiB, peak {growth:+.0f} MiB"
    )
    assert operator.is_running
    assert operator.pid == pid
    assert livez.codes == {200}
    assert livez.slowest < LIVEZ_LIMIT_SECONDS
    assert max(under_attack) < EDIT_LIMIT_SECONDS
    assert polled - in_time <= LATE_SHARE * polled
    assert growth < GROWTH_LIMIT_MIB
    for each in hostile.list("InferenceModel"):
        ready = hostile.condition(each["metadata"]["name"])
        assert ready[1], f"{each['metadata']['name']} has no reason"
        assert ready[0] != "True" or ready[1] == "Serving"


def start_attack(api: Api, kubelet: Kubelet, stack: ExitStack) -> dict[str, str]:
    """A running pod for each hostile model, with the expected reason."""
    for program, protocol, transport, _ in PROGRAMS:
        port = stack.enter_context(attacking(program))
        apply_hostile(api, program, port, protocol, transport)
    port = stack.enter_context(attacking("silent"))
    for number in range(SILENT_MODELS):
        health = {"timeoutSeconds": SILENT_TIMEOUT_SECONDS}
        apply_hostile(api, f"silent-{number}", port, "OpenInference", HTTP, health=health)
    names = [program for program, *_ in PROGRAMS]
    names += [f"silent-{number}" for number in range(SILENT_MODELS)]
    for name in names:
        eventually(f"a pod of {name}", lambda n=name: pods_run(api, kubelet, n))
    return {program: reason for program, *_, reason in PROGRAMS}


def apply_hostile(
    api: Api, name: str, port: int, protocol: str, transport: str, **spec: Any
) -> None:
    ports = {"grpc": port} if transport == GRPC else {"http": port}
    runtime = {"image": "example/hostile:1", "ports": ports}
    declared = {"protocol": protocol, "transport": transport}
    api.apply(model(name, runtime=runtime, **declared, **spec))


def reason_of(api: Api, name: str) -> str:
    return api.condition(name)[1]
