"""Restarts and errors of the product's own containers that no test has announced.

    before a test: note()    after it: look()    at the end of the session: found must be empty

A test announces expected ones by a marker: `expects_restarts` or `expects_errors(pattern)`.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from support.kubectl import Kubectl

OPERATOR_NAMESPACE = "moorage-system"
OPERATORS = "app.kubernetes.io/name=moorage"
MODELS = "moorage.dev/model"
ERRORS = frozenset({"error", "critical", "fatal"})

Restarts = Mapping[tuple[str, str, str], int]


def restarts_of(pods: Iterable[Mapping[str, Any]], images: Sequence[str]) -> Restarts:
    """Restarts by pod uid, pod name and container, of containers that run one of the images."""
    return {
        (pod["metadata"]["uid"], pod["metadata"]["name"], status["name"]): status["restartCount"]
        for pod in pods
        for status in pod["status"].get("containerStatuses", [])
        if status["name"] in containers_of(pod, images)
    }


def containers_of(pod: Mapping[str, Any], images: Sequence[str]) -> list[str]:
    """Names of a pod's containers that run one of the images."""
    return [each["name"] for each in pod["spec"]["containers"] if each["image"] in images]


def more_restarts(before: Restarts, after: Restarts) -> list[str]:
    """One sentence per container that was restarted in between."""
    return [
        f"container {container} of pod {pod} restarted {count - before.get(key, 0)} times"
        for key, count in after.items()
        for _, pod, container in [key]
        if count > before.get(key, 0)
    ]


def error_lines(log: str, expected: Sequence[str]) -> list[str]:
    """Lines of level error in a log of JSON lines that match none of the patterns."""
    found: list[str] = []
    for line in log.splitlines():
        try:
            record: object = json.loads(line)
        except json.JSONDecodeError:
            continue
        level = record.get("level") if isinstance(record, dict) else ""
        if level in ERRORS and not any(re.search(each, line) for each in expected):
            found.append(line)
    return found


@dataclass
class Disturbances:
    """Restarts and errors of the operator and of model servers, by test.

    Attributes:
        found: Unannounced ones, with the name of the test.
    """

    env: Mapping[str, str]
    found: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.note()

    def note(self) -> None:
        """Begin the next test."""
        self._since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        pods = self._operators()
        self._before = restarts_of(pods, self._images(pods))

    def look(
        self,
        test: str,
        namespaces: Sequence[str],
        *,
        expects_restarts: bool,
        expected_errors: Sequence[str],
    ) -> None:
        """Note what has happened since; `namespaces` are those of the test's models."""
        for said in self._disturbances(namespaces, expects_restarts, expected_errors):
            self.found.append(f"{test}: {said}")
        self.note()

    def _disturbances(
        self, namespaces: Sequence[str], expects_restarts: bool, expected_errors: Sequence[str]
    ) -> Iterable[str]:
        operators = self._operators()
        images = self._images(operators)
        groups = [(OPERATOR_NAMESPACE, operators)]
        groups += [(each, Kubectl(self.env, each).items("pods", MODELS)) for each in namespaces]
        for namespace, pods in groups:
            if not expects_restarts:
                yield from more_restarts(self._before, restarts_of(pods, images))
            for pod in pods:
                for container in containers_of(pod, images):
                    log = self._log(namespace, pod["metadata"]["name"], container)
                    yield from error_lines(log, expected_errors)

    def _operators(self) -> list[dict[str, Any]]:
        return Kubectl(self.env, OPERATOR_NAMESPACE).items("pods", OPERATORS)

    def _images(self, operators: Sequence[Mapping[str, Any]]) -> list[str]:
        """The images of the operator and of the bundled runtime."""
        containers = [each for pod in operators for each in pod["spec"]["containers"]]
        runtimes = [
            variable.get("value", "")
            for each in containers
            for variable in each.get("env", [])
            if variable["name"] == "MOORAGE_RUNTIME_IMAGE"
        ]
        return [*(each["image"] for each in containers), *runtimes]

    def _log(self, namespace: str, pod: str, container: str) -> str:
        words = ("logs", pod, "--container", container, f"--since-time={self._since}")
        # A pod that is not running yet, or is gone by now, has no log.
        return Kubectl(self.env, namespace).run(*words, check=False)
