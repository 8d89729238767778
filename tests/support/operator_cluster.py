"""The basis of integration tests: a control plane, a simulated kubelet, and the operator."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

from kubernetes.config import new_client_from_config
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import NotFoundError

import kubernetes

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "localcluster" / "cluster"
CRD = ROOT / "crds" / "inferencemodels.yaml"
RUNTIMES_CRD = ROOT / "crds" / "inferenceruntimes.yaml"
HELD_WATCH = ROOT / "tests" / "support" / "held_watch.py"
GROUP = "moorage.dev/v1alpha1"
KINDS = {
    "InferenceModel": GROUP,
    "InferenceRuntime": GROUP,
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "ControllerRevision": "apps/v1",
    "Service": "v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
    "PodDisruptionBudget": "policy/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "ScaledObject": "keda.sh/v1alpha1",
    "HTTPRoute": "gateway.networking.k8s.io/v1",
    "GRPCRoute": "gateway.networking.k8s.io/v1",
    "Gateway": "gateway.networking.k8s.io/v1",
    "Ingress": "networking.k8s.io/v1",
    "IngressClass": "networking.k8s.io/v1",
    "GatewayClass": "gateway.networking.k8s.io/v1",
    "Pod": "v1",
    "Role": "rbac.authorization.k8s.io/v1",
    "ClusterRole": "rbac.authorization.k8s.io/v1",
    "ConfigMap": "v1",
    "Secret": "v1",
    "ServiceAccount": "v1",
    "ResourceQuota": "v1",
    "Namespace": "v1",
    "Node": "v1",
    "Event": "events.k8s.io/v1",
    "CustomResourceDefinition": "apiextensions.k8s.io/v1",
    "ValidatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
    "MutatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
    "ValidatingAdmissionPolicy": "admissionregistration.k8s.io/v1",
    "ValidatingAdmissionPolicyBinding": "admissionregistration.k8s.io/v1",
}


def control_plane(verb: str, folder: Path) -> None:
    """Start or stop etcd, kube-apiserver and kube-controller-manager in a folder."""
    command = [sys.executable, CLUSTER, "control-plane", verb, "--dir", folder]
    if verb == "up":
        command.append("--controllers")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, f"control-plane {verb}: {done.stdout}{done.stderr}"


def install_crd(kubeconfig: Path) -> None:
    """Create the CRD and wait until the API server serves it."""
    _install(kubeconfig, CRD)


def install_runtimes_crd(kubeconfig: Path) -> None:
    """Create the CRD of InferenceRuntimes and wait until the API server serves it."""
    _install(kubeconfig, RUNTIMES_CRD)


def _install(kubeconfig: Path, crd: Path) -> None:
    client = new_client_from_config(str(kubeconfig))
    try:
        kubernetes.utils.create_from_yaml(client, str(crd))
    except kubernetes.utils.FailToCreateError as error:
        if any(each.status != HTTPStatus.CONFLICT for each in error.api_exceptions):
            raise  # another module of the session may have created it

    def is_served() -> bool:
        try:
            api = kubernetes.client.CustomObjectsApi(client)
            api.list_cluster_custom_object("moorage.dev", "v1alpha1", crd.stem)
        except kubernetes.client.ApiException:
            return False
        return True

    eventually("the CRD is served", is_served)


def kill_api_server(folder: Path) -> None:
    """End the API server as a crash would; etcd keeps running."""
    record = json.loads((folder / "pids" / "kube-apiserver.json").read_text())
    os.kill(record["pid"], signal.SIGKILL)


class Api:
    """The API as a test's user has it, in one namespace; objects are plain dictionaries."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self.namespace = namespace
        self.kubeconfig = kubeconfig
        self._client = DynamicClient(new_client_from_config(str(kubeconfig)))

    def of(self, kind: str) -> Any:
        return self._client.resources.get(api_version=KINDS[kind], kind=kind)

    def apply(self, body: dict[str, Any], *, manager: str = "user") -> dict[str, Any]:
        return (
            self.of(body["kind"])
            .server_side_apply(
                body=body, namespace=self.namespace, field_manager=manager, force_conflicts=True
            )
            .to_dict()
        )

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """The object, {} when it does not exist."""
        try:
            return self.of(kind).get(name=name, namespace=self.namespace).to_dict()
        except NotFoundError:
            return {}

    def list(self, kind: str, selector: str = "") -> list[dict[str, Any]]:
        words = {"label_selector": selector} if selector else {}
        return self.of(kind).get(namespace=self.namespace, **words).to_dict()["items"]

    def patch(self, kind: str, name: str, body: Any, how: str = "merge") -> dict[str, Any]:
        content_type = f"application/{how}-patch+json"
        return (
            self.of(kind)
            .patch(name=name, namespace=self.namespace, body=body, content_type=content_type)
            .to_dict()
        )

    def patch_status(self, kind: str, name: str, status: dict[str, Any]) -> None:
        resource = self.of(kind).subresources["status"]
        resource.patch(
            name=name,
            namespace=self.namespace,
            body={"status": status},
            content_type="application/merge-patch+json",
        )

    def delete(self, kind: str, name: str) -> None:
        self.of(kind).delete(name=name, namespace=self.namespace)

    def condition(self, name: str, type_: str = "Ready") -> tuple[str, str]:
        """Status and reason of a condition, for the newest generation; empty before that."""
        model = self.get("InferenceModel", name)
        for condition in (model.get("status") or {}).get("conditions", []):
            current = condition["observedGeneration"] == model["metadata"]["generation"]
            if condition["type"] == type_ and current:
                return condition["status"], condition["reason"]
        return "", ""


def eventually(what: str, probe: Any, *, seconds: float = 20.0) -> Any:
    """The first truthy answer of the probe."""
    deadline = time.monotonic() + seconds
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}; last: {found!r}")
        time.sleep(0.02)


def settle(api: Api, name: str) -> None:
    """Wait until neither the operator nor the Deployment controller has anything left to say."""

    def is_complete() -> bool:
        conditions = api.get("Deployment", name).get("status", {}).get("conditions", [])
        return "NewReplicaSetAvailable" in [each["reason"] for each in conditions]

    eventually("the Deployment is complete", is_complete)
    eventually("UpToDate", lambda: api.condition(name, "UpToDate")[0] == "True")


def model(name: str, **spec: Any) -> dict[str, Any]:
    """An InferenceModel."""
    return {
        "apiVersion": GROUP,
        "kind": "InferenceModel",
        "metadata": {"name": name},
        "spec": spec or {"runtime": {"image": "example/server:1"}},
    }


# ---------------------------------------------------------------------- simulated kubelet


class Kubelet:
    """Reports pods' states as a kubelet would; there is none in a bare control plane."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def pods(self, name: str) -> list[dict[str, Any]]:
        return self._api.list("Pod", f"moorage.dev/model={name}")

    def run(
        self,
        pod: dict[str, Any],
        ip: str = "127.0.0.1",
        *,
        ready: bool = True,
        run: int = 1,
        gated: bool = False,
    ) -> None:
        """The container runs; a later `run` is a restarted one.

        A pod that is `gated` has a container that is ready, and waits for its readiness gate.
        """
        now = _now()
        state = {"running": {"startedAt": now}}
        self._report(
            pod,
            state,
            ready=ready,
            restarts=run - 1,
            ip=ip,
            phase="Running",
            run=run,
            gated=gated,
        )

    def wait(self, pod: dict[str, Any], reason: str, message: str) -> None:
        """The container waits."""
        state = {"waiting": {"reason": reason, "message": message}}
        self._report(pod, state, ready=False, restarts=0, ip="", phase="Pending", run=0)

    def end_init(
        self, pod: dict[str, Any], container: dict[str, Any], exit_code: int, message: str
    ) -> None:
        """An init container has ended, and waits to be started again where that was a failure."""
        now = _now()
        ended = {"exitCode": exit_code, "reason": "Error", "message": message}
        status = {
            "name": container["name"],
            "image": container["image"],
            "imageID": "sha256:0",
            "containerID": f"containerd://{pod['metadata']['uid']}-init",
            "ready": False,
            "started": False,
            "restartCount": 1,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
            "lastState": {"terminated": {**ended, "startedAt": now, "finishedAt": now}},
        }
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}
        pod_status = {
            "phase": "Pending",
            "conditions": [scheduled],
            "initContainerStatuses": [status],
        }
        self._api.patch_status("Pod", pod["metadata"]["name"], pod_status)

    def _report(
        self,
        pod: dict[str, Any],
        state: dict[str, Any],
        *,
        ready: bool,
        restarts: int,
        ip: str,
        phase: str,
        run: int,
        gated: bool = False,
    ) -> None:
        now, verdict = _now(), "True" if ready else "False"
        container = pod["spec"]["containers"][0]
        status: dict[str, Any] = {
            "phase": phase,
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": now},
                {
                    "type": "Ready",
                    "status": "False" if gated else verdict,
                    "message": "" if ready and not gated else "the kubelet says why",
                    "lastTransitionTime": now,
                },
                {"type": "ContainersReady", "status": verdict, "lastTransitionTime": now},
            ],
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": "sha256:0",
                    "containerID": f"containerd://{pod['metadata']['uid']}-{run}" if run else "",
                    "ready": ready,
                    "started": run > 0,
                    "restartCount": restarts,
                    "state": state,
                }
            ],
        }
        if ip:
            status |= {"podIP": ip, "podIPs": [{"ip": ip}], "startTime": now}
        self._api.patch_status("Pod", pod["metadata"]["name"], status)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# ---------------------------------------------------------------------- the operator


@dataclass
class OperatorProcess:
    """The operator as a process that can be started and ended at any time."""

    kubeconfig: Path
    log: Path
    options: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    program: tuple[str | Path, ...] = ("-m", "moorage_operator")
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, *self.program, "--runtime-image", "runtime:test"]
        command += ["--health-host", "127.0.0.1", "--health-port", "0", *self.options]
        env = {"PATH": os.environ["PATH"], "KUBECONFIG": str(self.kubeconfig), **self.env}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        self._from = self.log.stat().st_size
        self.port = int(
            eventually("a health port in the log", lambda: self.logged(r'"port": (\d+)'))
        )

    def logged(self, pattern: str) -> str:
        """The first group of the pattern's last match in this process's log."""
        found = re.findall(pattern, self.log.read_text()[self._from :])
        return found[-1] if found else ""

    def wait_ready(self) -> None:
        eventually("the operator is ready", lambda: self.ask("/readyz")[0] == 200, seconds=40)

    def ask(self, path: str) -> tuple[int, str]:
        """The status and body of a health endpoint; 0 if nothing listens."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}{path}", timeout=5
            ) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def metric(self, name: str, *labels: str) -> float:
        """Sum of a metric's samples that carry these `key="value"` labels."""
        total = 0.0
        for line in self.ask("/metrics")[1].splitlines():
            head, _, value = line.rpartition(" ")
            if head.split("{")[0] == name and all(label in head for label in labels):
                total += float(value)
        return total

    @property
    def pid(self) -> int:
        """Process id of the operator that was started last."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @contextmanager
    def held(self) -> Iterator[None]:
        """The process does nothing until the block ends."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End the process; its exit status."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(timeout=20)


# ---------------------------------------------------------------------- a model server


class ModelServer:
    """A real HTTP server that simulates an Open Inference server with one model.

    It runs in its own thread, because tests here are synchronous.
    """

    def __init__(self, name: str = "iris", host: str = "127.0.0.1", port: int = 0) -> None:
        self.name = name
        self.host, self.port = host, port
        self.ready = True
        self.error = ""
        self.datatype = "FP32"
        self.tells_metadata = True
        self.requests: list[str] = []
        self.delay_seconds = 0.0
        self._held = ""
        self._released = asyncio.Event()
        self._serving: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        started = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._connected, self.host, self.port), self._loop
        )
        self._server = started.result(10)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @contextmanager
    def held(self, path: str) -> Iterator[None]:
        """Answers to paths that end so wait until the block ends."""
        self._held = path
        try:
            yield
        finally:
            self._held = ""
            self._loop.call_soon_threadsafe(self._released.set)

    async def _close(self) -> None:
        # The loop's own tasks accept. A connection that one of them sets up after the server has
        # closed is left open by asyncio, for good.
        while asyncio.all_tasks() - self._serving - {asyncio.current_task()}:  # noqa: ASYNC110 - they are not ours to await
            await asyncio.sleep(0)
        self._server.close()
        # A task that is cancelled before its first step would not close its connection.
        await asyncio.sleep(0)
        while serving := set(self._serving):
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, return_exceptions=True)
            await asyncio.sleep(0)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ")[1].decode()
            if length := re.search(rb"content-length: (\d+)", head, re.IGNORECASE):
                await reader.readexactly(int(length[1]))
            self.requests.append(path)
            if path.endswith("/infer"):
                await asyncio.sleep(self.delay_seconds)
            if self._held and path.endswith(self._held):
                await self._released.wait()
            code, body = self._answer(path)
            length = f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            writer.write(f"HTTP/1.1 {code} -\r\n{length}".encode() + body.encode())
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client has gone, or the test is over
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def _answer(self, path: str) -> tuple[int, str]:
        prefix = f"/v2/models/{self.name}"
        if path == "/v2":
            return 200, '{"name":"fake","version":"7","extensions":[]}'
        if path.startswith("/v2/health/"):
            return 200, ""
        if path == f"{prefix}/ready":
            error = f',"error":"{self.error}"' if self.error else ""
            verdict = "true" if self.ready else "false"
            return 200 if self.ready else 503, f'{{"ready":{verdict}{error}}}'
        if path == prefix and self.tells_metadata:
            tensor = f'{{"name":"x","datatype":"{self.datatype}","shape":[-1,4]}}'
            return 200, f'{{"name":"{self.name}","inputs":[{tensor}],"outputs":[]}}'
        return 404, '{"error":"no such model; the server has iris"}'


class TensorflowServer(ModelServer):
    """A server that simulates TensorFlow Serving: 200 for the status in any state."""

    state = "AVAILABLE"

    def _answer(self, path: str) -> tuple[int, str]:
        status = {"error_code": "INTERNAL" if self.error else "OK", "error_message": self.error}
        version = {"version": "3", "state": self.state, "status": status}
        tensor = {"dtype": "DT_FLOAT", "tensor_shape": {"dim": [{"size": "-1"}, {"size": "4"}]}}
        signature = {"inputs": {"x": tensor}, "outputs": {}}
        metadata = {"signature_def": {"signature_def": {"serving_default": signature}}}
        if path == f"/v1/models/{self.name}":
            return 200, json.dumps({"model_version_status": [version]})
        if path == f"/v1/models/{self.name}/metadata":
            return 200, json.dumps({"metadata": metadata})
        if path.startswith("/v1/models/"):
            return 404, '{"error":"Could not find any versions of model rose"}'
        return 404, ""


class GrpsServer(ModelServer):
    """One that plays a GRPS server which starts offline and has every failure in a 200."""

    def __init__(self, name: str = "iris") -> None:
        super().__init__(name)
        self.online = False

    def _answer(self, path: str) -> tuple[int, str]:
        if path == "/grps/v1/health/online":
            self.online = True
        if path == "/grps/v1/health/ready" and not self.online:
            status = {"code": 503, "msg": "Service Unavailable", "status": "FAILURE"}
            return 200, json.dumps({"status": status})
        if not path.startswith("/grps/v1/"):
            return 404, ""
        text = f"name: {self.name}\nversion: 1.10\n" if path.endswith("/model") else ""
        status = {"code": 200, "msg": "OK", "status": "SUCCESS"}
        return 200, json.dumps({"status": status, "str_data": text})


class OpenAiServer(ModelServer):
    """One that plays an OpenAI-compatible server, which lists its model while it loads."""

    content = "Paris."

    def _answer(self, path: str) -> tuple[int, str]:
        if path == "/health":
            error = {"code": 503, "message": "Loading model", "type": "unavailable_error"}
            return (200, '{"status":"ok"}') if self.ready else (503, json.dumps({"error": error}))
        if path == "/v1/models":
            listed = {
                "id": self.name,
                "object": "model",
                "owned_by": "vllm",
                "max_model_len": 4096,
            }
            return 200, json.dumps({"object": "list", "data": [listed]})
        if path == "/v1/chat/completions":
            message = {"role": "assistant", "content": self.content}
            return 200, json.dumps({"choices": [{"index": 0, "message": message}]})
        return 404, '{"detail":"Not Found"}'


class Liar(ModelServer):
    """A server with the same answer for every path."""

    def __init__(self, code: int, body: str) -> None:
        super().__init__()
        self.reply = code, body

    def _answer(self, path: str) -> tuple[int, str]:
        del path
        return self.reply
