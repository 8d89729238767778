"""kubectl, with the environment of the cluster under test."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from support.waiting import eventually

KIND = "inferencemodels.moorage.dev"


@dataclass(frozen=True)
class Kubectl:
    """Runs kubectl in one namespace.

    Attributes:
        env: Environment with KUBECONFIG and a PATH that has kubectl.
        namespace: Namespace of every command.
    """

    env: Mapping[str, str]
    namespace: str

    def run(self, *words: str, stdin: str | None = None, check: bool = True) -> str:
        """The standard output of kubectl; with `check` a failure raises an AssertionError."""
        done = subprocess.run(
            ["kubectl", "--namespace", self.namespace, *words],
            env=dict(self.env),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(words)}: {done.stderr}")
        return done.stdout if check else done.stdout + done.stderr

    def apply(self, *objects: Mapping[str, Any]) -> str:
        """Apply objects as one would from a file."""
        return self.run("apply", "-f", "-", stdin=as_list(objects))

    def refusal(self, *objects: Mapping[str, Any]) -> str:
        """The error of kubectl if the API server rejects the objects."""
        done = subprocess.run(
            ["kubectl", "--namespace", self.namespace, "apply", "-f", "-"],
            env=dict(self.env),
            input=as_list(objects),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode != 0, f"accepted: {done.stdout}"
        return done.stderr

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """One object, {} when it does not exist."""
        text = self.run("get", kind, name, "-o", "json", "--ignore-not-found")
        return json.loads(text) if text.strip() else {}

    def items(self, kind: str, selector: str = "") -> list[dict[str, Any]]:
        """Objects of a kind."""
        words = ["get", kind, "-o", "json"] + (["-l", selector] if selector else [])
        return json.loads(self.run(*words))["items"]

    def condition(self, name: str, type_: str) -> dict[str, Any]:
        """A condition of an InferenceModel, {} when it is not there."""
        return find_condition(self.get(KIND, name), type_)

    def wait_condition(
        self, name: str, type_: str, status: str, reason: str | None = None, seconds: float = 60
    ) -> dict[str, Any]:
        """The condition once it has this status and reason for the newest generation."""
        return find_condition(self.wait_model(name, type_, status, reason, seconds), type_)

    def wait_model(
        self, name: str, type_: str, status: str, reason: str | None = None, seconds: float = 60
    ) -> dict[str, Any]:
        """The model as it was read when its condition had this status and reason."""

        def holds(model: dict[str, Any]) -> bool:
            found = find_condition(model, type_)
            return (
                found.get("status") == status
                and (reason is None or found.get("reason") == reason)
                and found.get("observedGeneration") == model["metadata"]["generation"]
            )

        return eventually(
            f"{type_}={status}/{reason} of {name}", lambda: self.get(KIND, name), holds, seconds
        )

    def row(self, name: str) -> dict[str, str]:
        """The columns of `kubectl get inferencemodels NAME`."""
        head, row = self.run("get", "inferencemodels", name).splitlines()[:2]
        starts = [head.index(word) for word in head.split()]
        ends = [*starts[1:], None]
        return {
            head[start:end].strip(): row[start:end].strip()
            for start, end in zip(starts, ends, strict=True)
        }


def find_condition(model: Mapping[str, Any], type_: str) -> dict[str, Any]:
    """The condition of this type, {} when it is not there."""
    for condition in model.get("status", {}).get("conditions", []):
        if condition["type"] == type_:
            return condition
    return {}


def as_list(objects: tuple[Mapping[str, Any], ...]) -> str:
    """Objects as one JSON document for kubectl."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
