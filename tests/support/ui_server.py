"""`moorage ui-server` as a process outside a pod, and accounts of limited rights for it."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import yaml
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding
from kubernetes.client import CoreV1Api, RbacAuthorizationV1Api
from kubernetes.config import new_client_from_config

from support.operator_cluster import Api

MOORAGE = Path(sys.executable).parent / "moorage"
SECONDS = 60
VERBS = ["get", "list", "watch", "patch"]


class UiServer:
    """The program with the environment that Kubernetes gives a pod.

    Args:
        kubeconfig: Of which only the address and the CA of the API server are used.
        folder: A folder for the CA.
    """

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        (cluster,) = yaml.safe_load(kubeconfig.read_text())["clusters"]
        address = cluster["cluster"]["server"].removeprefix("https://")
        host, _, port = address.rpartition(":")
        self._authorities = folder / "ca.crt"
        self._authorities.write_bytes(_authorities(cluster["cluster"]))
        home = {"HOME": str(folder), "PATH": os.environ["PATH"]}
        names = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        self._env = {**home, **names}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        command = [str(MOORAGE), "ui-server", "--listen", "127.0.0.1", "--port", "0"]
        command += ["--api-server-ca", str(self._authorities)]
        self._process = subprocess.Popen(command, env=self._env, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._port = int(self._process.stdout.readline().split()[-1].rstrip("."))
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate(timeout=SECONDS)
        assert self._process.returncode == 0

    def connections(self, port: int) -> int:
        """Open connections of the program to a port of this machine."""
        own = {_target(each) for each in Path(f"/proc/{self._process.pid}/fd").iterdir()}
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(
            f"socket:[{row[9]}]" in own and int(row[2].rpartition(":")[2], 16) == port
            for row in rows
        )

    @property
    def api_server_port(self) -> int:
        return int(self._env["KUBERNETES_SERVICE_PORT"])


def _target(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except FileNotFoundError:  # closed meanwhile
        return ""


def _authorities(cluster: dict[str, Any]) -> bytes:
    if data := cluster.get("certificate-authority-data"):
        return base64.b64decode(data)
    return Path(cluster["certificate-authority"]).read_bytes()


class Accounts:
    """Service accounts of a namespace, each with its rights on InferenceModels of it."""

    def __init__(self, api: Api) -> None:
        client = new_client_from_config(str(api.kubeconfig))
        self._namespace = api.namespace
        self._key = api.kubeconfig.parent / "pki" / "sa.key"
        self._core: Any = CoreV1Api(client)
        self._rights: Any = RbacAuthorizationV1Api(client)

    def create(self, name: str, verbs: list[str] = VERBS) -> str:
        """Create an account, and return a token of it."""
        metadata = {"name": name, "namespace": self._namespace}
        self._core.create_namespaced_service_account(self._namespace, {"metadata": metadata})
        if verbs:
            rule = {"apiGroups": ["moorage.dev"], "resources": ["inferencemodels"], "verbs": verbs}
            role = {"metadata": metadata, "rules": [rule]}
            self._rights.create_namespaced_role(self._namespace, role)
            subject = {"kind": "ServiceAccount", **metadata}
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
            binding = {"metadata": metadata, "subjects": [subject], "roleRef": reference}
            self._rights.create_namespaced_role_binding(self._namespace, binding)
        return self.token(name)

    def token(self, name: str) -> str:
        spec = {"spec": {"audiences": [], "expirationSeconds": 3600}}
        made = self._core.create_namespaced_service_account_token(name, self._namespace, spec)
        return made.status.token

    def signed_again(self, token: str, **changed: Any) -> str:
        """The token with other claims, signed with the key of the API server."""
        head, body, _ = token.split(".")
        claims = json.loads(base64.urlsafe_b64decode(body + "=="))
        body = base64.urlsafe_b64encode(json.dumps({**claims, **changed}).encode()).decode()
        signed = f"{head}.{body.rstrip('=')}"
        key: Any = serialization.load_pem_private_key(self._key.read_bytes(), None)
        found = key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{base64.urlsafe_b64encode(found).decode().rstrip('=')}"

    def delete(self, name: str) -> None:
        """Delete the account, and with it the validity of its tokens."""
        self._core.delete_namespaced_service_account(name, self._namespace)

    def withdraw(self, name: str) -> None:
        """Take the rights from an account."""
        self._rights.delete_namespaced_role_binding(name, self._namespace)
