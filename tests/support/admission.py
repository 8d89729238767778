"""Admission on a real API server that refuses or fails writes of some kinds in one namespace."""

import select
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from support.operator_cluster import Api, eventually

MESSAGE = "a policy of the test says no"
FAILED = "failed calling webhook"

RESOURCES = {
    "NetworkPolicy": ("networking.k8s.io", "v1", "networkpolicies"),
    "PodDisruptionBudget": ("policy", "v1", "poddisruptionbudgets"),
    "Service": ("", "v1", "services"),
    "Deployment": ("apps", "v1", "deployments"),
}


def rule_of(kind: str, *, deletions: bool = False) -> dict[str, Any]:
    group, version, plural = RESOURCES[kind]
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": ["CREATE", "UPDATE", *(["DELETE"] if deletions else [])],
        "resources": [plural],
    }


def _here(api: Api) -> dict[str, Any]:
    return {"matchLabels": {"kubernetes.io/metadata.name": api.namespace}}


def _probe(kind: str) -> dict[str, Any]:
    group, version, _ = RESOURCES[kind]
    specs: dict[str, dict[str, Any]] = {
        "NetworkPolicy": {"podSelector": {}},
        "PodDisruptionBudget": {"maxUnavailable": 1, "selector": {}},
        "Service": {"ports": [{"port": 80}]},
        "Deployment": {
            "selector": {"matchLabels": {"a": "b"}},
            "replicas": 0,
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }
    api_version = f"{group}/{version}" if group else version
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "admission-probe"}}
    return {**body, "spec": specs[kind]}


def answer_to_probe(api: Api, kind: str) -> str:
    """The API server's answer to an object of the kind, which is not kept."""
    try:
        made = api.of(kind).create(body=_probe(kind), namespace=api.namespace, dry_run="All")
    except Exception as error:  # noqa: BLE001 - refusals are distinguished by their message
        return str(error)
    return str(made.to_dict())


@contextmanager
def _in_force(api: Api, kinds: tuple[str, ...], words: str) -> Iterator[None]:
    for kind in kinds:
        eventually(
            f"{kind} is not accepted", lambda kind=kind: words in answer_to_probe(api, kind)
        )
    yield


@contextmanager
def refusing(
    api: Api, *kinds: str, unless: str = "false", deletions: bool = False
) -> Iterator[None]:
    """Writes of these kinds are refused with 403 or 422 until the block ends.

    Args:
        api: The API server.
        kinds: The kinds.
        unless: A CEL expression for the objects that are allowed.
        deletions: Whether deletions are refused, too.
    """
    name = f"refuse-{api.namespace}"
    group = "admissionregistration.k8s.io/v1"
    rules = [rule_of(kind, deletions=deletions) for kind in kinds]
    policy = {
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": unless, "message": MESSAGE}],
    }
    binding = {
        "policyName": name,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": _here(api)},
    }
    for kind, spec in (
        ("ValidatingAdmissionPolicy", policy),
        ("ValidatingAdmissionPolicyBinding", binding),
    ):
        api.apply({"apiVersion": group, "kind": kind, "metadata": {"name": name}, "spec": spec})
    try:
        with _in_force(api, kinds, MESSAGE):
            yield
    finally:
        api.delete("ValidatingAdmissionPolicyBinding", name)
        api.delete("ValidatingAdmissionPolicy", name)


@contextmanager
def failing(api: Api, *kinds: str, deletions: bool = False) -> Iterator[None]:
    """A required webhook does not answer, so writes of these kinds fail with 500."""
    rules = [rule_of(kind, deletions=deletions) for kind in kinds]
    with _webhook(api, rules, "https://127.0.0.1:1/"), _in_force(api, kinds, FAILED):
        yield


@contextmanager
def hanging(api: Api, *kinds: str) -> Iterator[None]:
    """A required webhook accepts connections and says nothing: writes of these kinds take 30 s."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/"
        with _webhook(api, [rule_of(kind) for kind in kinds], url):
            # The API server learns of the webhook after a moment.
            eventually("it is called", lambda: _is_called(api, kinds[0], listener), seconds=60)
            yield


def _is_called(api: Api, kind: str, listener: socket.socket) -> bool:
    threading.Thread(target=answer_to_probe, args=(api, kind), daemon=True).start()
    return bool(select.select([listener], [], [], 0.5)[0])


@contextmanager
def _webhook(api: Api, rules: Sequence[dict[str, Any]], url: str) -> Iterator[None]:
    name = f"fail-{api.namespace}"
    hook = {
        "name": "nobody.answers.example",
        "clientConfig": {"url": url},
        "rules": rules,
        "failurePolicy": "Fail",
        "timeoutSeconds": 30,
        "namespaceSelector": _here(api),
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    api.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [hook],
        }
    )
    try:
        yield
    finally:
        api.delete("ValidatingWebhookConfiguration", name)
