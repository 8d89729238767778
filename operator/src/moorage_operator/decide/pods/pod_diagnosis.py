"""Determines from a pod's status why its container does not run.

`pod_finding` judges one pod; `replicas` combines the finding with the server's own answers. None
means that the container runs and Kubernetes reports no problem.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from moorage_operator.api.conditions import Finding, Reason
from moorage_operator.api.names import FETCH_CONTAINER, RUNTIME_CONTAINER
from moorage_operator.api.v1alpha1 import Health
from moorage_operator.values.objects import (
    DEFAULT_SCHEDULER,
    ContainerObserved,
    PodObserved,
)
from moorage_operator.values.observed import Reference, ReferenceKind, ReferenceState
from moorage_operator.values.words import printable

__all__ = [
    "Termination",
    "crashed_before",
    "ended_reason",
    "failed_pod",
    "last_run",
    "log_tail",
    "missing_reference",
    "pod_finding",
]

IMAGE_PULL_REASONS = {
    "ImagePullBackOff",
    "ErrImagePull",
    "ErrImageNeverPull",
    "RegistryUnavailable",
}
CONFIG_REASONS = {
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "PreCreateHookError",
    "PreStartHookError",
    "PostStartHookError",
}
# The container could not start: its command does not exist or is not executable. The message comes
# from the container runtime and is not a log.
NEVER_BEGAN_REASONS = {"StartError", "ContainerCannotRun"}
SIGNAL_EXIT_CODES = {137, 143}  # 128 + SIGKILL, 128 + SIGTERM: how a kubelet ends a container
LOG_TAIL_CHARACTERS = 600
MISSING_CLAIM = re.compile(r'persistentvolumeclaim "[^"]*" not found')
# How kubelets and container runtimes refer to the image that they pull.
PULLED_IMAGE = re.compile(r'image \\?"([^"\\]+)')
# Errors of registries and container runtimes for missing or wrong credentials.
DENIED_PULL = re.compile(
    r"\b(401|403|unauthorized|forbidden|denied|authentication required|no basic auth)\b",
    re.IGNORECASE,
)
PULL_SECRETS_ADVICE = (
    "; the registry rejected the credentials, or there were none: "
    "imagePullSecrets must name Secrets that exist in the model's namespace"
)
# A terminal's colors and styles, which some libraries log without a terminal too.
COLOR = re.compile(r"\x1b\[[0-9;]{0,30}m")
MISSING_SECRET = re.compile(r'secrets? "[^"]*" not found')


@dataclass(frozen=True, slots=True)
class Termination:
    """A terminated run of a container."""

    reason: str
    exit_code: int
    message: str
    started_at: datetime | None
    ended_at: datetime | None


def pod_finding(
    pod: PodObserved, health: Health, references: Mapping[Reference, ReferenceState]
) -> Finding | None:
    """Return why the runtime container does not run or has crashed; None if it runs."""
    if pod.runtime.running_since is not None:
        ended = last_run(pod.runtime) if crashed_before(pod) else None
        return _ended_finding(pod.runtime, ended, health) if ended else None
    blocked = _init_finding(pod, health) or _container_finding(pod.runtime, health)
    if blocked:
        return blocked
    missing = missing_reference(references)
    if missing:
        return missing
    if pod.scheduled.status is False:
        return _unscheduled_finding(pod)
    return Finding(Reason.PENDING, _pending_sentence(pod) + _unreadable(pod, references))


def crashed_before(pod: PodObserved) -> bool:
    """Whether the container runs again after a failed run and has not been ready since.

    The startup probe makes the same request as the readiness probe, so a started container has
    been ready. Until then the failed run is reported; otherwise the reason would alternate with
    every restart.
    """
    container = pod.runtime
    return (
        container.restart_count > 0 and not container.started and last_run(container) is not None
    )


def missing_reference(references: Mapping[Reference, ReferenceState]) -> Finding | None:
    """Report objects that the pods need and that do not exist."""
    missing = sorted(ref for ref, state in references.items() if state is ReferenceState.MISSING)
    if not missing:
        return None
    first = missing[0]
    reason = (
        Reason.SECRET_NOT_FOUND
        if first.kind is ReferenceKind.SECRET
        else Reason.VOLUME_MOUNT_FAILED
    )
    names = ", ".join(f'{ref.kind} "{ref.name}"' for ref in missing)
    verb = "does" if len(missing) == 1 else "do"
    return Finding(reason, f"{names} {verb} not exist in this namespace; create it there")


def failed_pod(pods: Iterable[PodObserved], revision: str) -> Finding | None:
    """Report why the newest failed pod of a revision ended, such as an eviction."""
    failed = [pod for pod in pods if pod.phase == "Failed" and pod.revision == revision]
    if not failed:
        return None
    newest = max(failed, key=lambda pod: (pod.created, pod.name))
    sentence = f"pod {newest.name} failed, waiting for its replacement"
    parts = (sentence, newest.reason, newest.message)
    return Finding(Reason.PENDING, ": ".join(text for text in parts if text))


def last_run(container: ContainerObserved) -> Termination | None:
    """Return the run that terminated last: the current state's or the one before it."""
    if container.exit_code is not None:
        return Termination(
            container.terminated_reason,
            container.exit_code,
            container.terminated_message,
            container.terminated_started_at,
            container.terminated_at,
        )
    if container.last_terminated_exit_code is not None:
        return Termination(
            container.last_terminated_reason,
            container.last_terminated_exit_code,
            container.last_terminated_message,
            container.last_terminated_started_at,
            container.last_terminated_at,
        )
    return None


def ended_reason(container: ContainerObserved, ended: Termination, health: Health) -> Reason:
    """Return the reason for a failed run of a container."""
    if ended.reason == "OOMKilled":
        return Reason.OOM_KILLED
    if ended.reason in NEVER_BEGAN_REASONS:
        return Reason.CREATE_CONTAINER_CONFIG_ERROR
    if container.name == FETCH_CONTAINER:
        return Reason.ARTIFACT_DOWNLOAD_FAILED
    is_probed = container.name == RUNTIME_CONTAINER
    if is_probed and _ended_by_startup_probe(ended, health):
        return Reason.STARTUP_TIMEOUT
    if is_probed and ended.exit_code in SIGNAL_EXIT_CODES:
        return Reason.LIVENESS_FAILING
    return Reason.CRASH_LOOP_BACK_OFF


def log_tail(message: str) -> str:
    """Return the end of a container's log, printable, with line breaks and indentation."""
    text = COLOR.sub("", message).strip().replace("\r\n", "\n").expandtabs(4)
    lines = text[-LOG_TAIL_CHARACTERS - 1 :].split("\n")
    tail = "\n".join(map(printable, lines))
    return tail if len(tail) <= LOG_TAIL_CHARACTERS else f"...{tail[-LOG_TAIL_CHARACTERS:]}"


def _unscheduled_finding(pod: PodObserved) -> Finding:
    message = pod.scheduled.message or pod.scheduled.reason
    if MISSING_CLAIM.search(message):
        return Finding(Reason.VOLUME_MOUNT_FAILED, message)
    return Finding(Reason.UNSCHEDULABLE, f"no node accepts pod {pod.name}: {message}")


def _pending_sentence(pod: PodObserved) -> str:
    if pod.scheduled.status is None:
        return _unassigned_sentence(pod)
    fetching = any(
        each.name == FETCH_CONTAINER and each.running_since is not None for each in pod.init
    )
    if fetching:
        command = f"`kubectl logs {pod.name} -c {FETCH_CONTAINER}`"
        return f"pod {pod.name} is downloading the model; {command} shows the progress"
    waiting = pod.runtime.waiting_reason or "ContainerCreating"
    detail = f": {pod.runtime.waiting_message}" if pod.runtime.waiting_message else ""
    return f"pod {pod.name} is starting on node {pod.node or 'unknown'} ({waiting}{detail})"


def _unassigned_sentence(pod: PodObserved) -> str:
    """Say what a pod waits for that no scheduler has reported about.

    The kubelet reports about a pod whose spec names the node, which no scheduler handles.
    """
    if pod.node:
        return (
            f"pod {pod.name} is waiting for node {pod.node!r}, which the pod template names; "
            "if this lasts, check that the node exists and is ready"
        )
    if pod.scheduler == DEFAULT_SCHEDULER:
        return f"pod {pod.name} is waiting for the scheduler"
    return (
        f"pod {pod.name} is waiting for the scheduler {pod.scheduler!r}, which the pod template "
        "names; if this lasts, check that this scheduler runs"
    )


def _unreadable(pod: PodObserved, references: Mapping[Reference, ReferenceState]) -> str:
    """Return advice to check objects that may block the pod and that cannot be looked up."""
    hidden = sorted(ref for ref, state in references.items() if state is ReferenceState.FORBIDDEN)
    if not hidden or pod.scheduled.status is not True:
        return ""
    names = ", ".join(f'{ref.kind} "{ref.name}"' for ref in hidden)
    verb = "exists" if len(hidden) == 1 else "exist"
    return (
        f"; if this lasts, check that {names} {verb} in this namespace: "
        "the operator is not allowed to look it up"
    )


def _init_finding(pod: PodObserved, health: Health) -> Finding | None:
    findings = (_container_finding(container, health) for container in pod.init)
    return next((found for found in findings if found), None)


def _container_finding(container: ContainerObserved, health: Health) -> Finding | None:
    """Return what a container is waiting for, or how it terminated."""
    waiting = container.waiting_reason
    detail = container.waiting_message or waiting
    if waiting in IMAGE_PULL_REASONS:
        return Finding(Reason.IMAGE_PULL_BACK_OFF, _pull_sentence(container.image, detail))
    if waiting == "InvalidImageName":
        return Finding(Reason.INVALID_IMAGE_NAME, f"image {container.image}: {detail}")
    if waiting in CONFIG_REASONS:
        return _config_finding(container, detail)
    ended = last_run(container)
    if ended is None or _completed_init(container, ended) or _is_sidecar_again(container):
        return None
    return _ended_finding(container, ended, health)


def _pull_sentence(image: str, detail: str) -> str:
    """Name the image that cannot be pulled: the container's own or that of a volume."""
    named = PULLED_IMAGE.search(detail)
    detail += PULL_SECRETS_ADVICE if DENIED_PULL.search(detail) else ""
    # A container runtime adds the default registry to the name of an image.
    if named is None or f"/{named[1]}".endswith(f"/{image}"):
        return f"image {image}: {detail}"
    return f"image {named[1]}, which is mounted as a volume: {detail}"


def _completed_init(container: ContainerObserved, ended: Termination) -> bool:
    """Whether an init container has completed; other containers must keep running."""
    return container.name != RUNTIME_CONTAINER and ended.exit_code == 0


def _is_sidecar_again(container: ContainerObserved) -> bool:
    """Whether an init container runs for the life of the pod and works again after a failed run.

    Only such a container is ready while it runs.
    """
    return container.running_since is not None and container.ready


def _config_finding(container: ContainerObserved, detail: str) -> Finding:
    if MISSING_SECRET.search(detail):
        return Finding(Reason.SECRET_NOT_FOUND, f"container {container.name}: {detail}")
    return Finding(Reason.CREATE_CONTAINER_CONFIG_ERROR, f"container {container.name}: {detail}")


def _ended_finding(container: ContainerObserved, ended: Termination, health: Health) -> Finding:
    reason = ended_reason(container, ended, health)
    if reason is Reason.ARTIFACT_DOWNLOAD_FAILED:
        return Finding(reason, _fetch_sentence(ended))
    if reason is Reason.CREATE_CONTAINER_CONFIG_ERROR:
        return _config_finding(container, ended.message)
    advice = (
        "raise model.download.resources.limits.memory"
        if container.name == FETCH_CONTAINER
        else "raise its memory limit"
    )
    is_server = container.name == RUNTIME_CONTAINER
    server = ", but a model server must not exit" if is_server else ""
    how = {
        Reason.OOM_KILLED: f"ran out of memory and was killed; {advice}",
        Reason.STARTUP_TIMEOUT: (
            f"was not ready within health.startupTimeoutSeconds "
            f"({health.startup_timeout_seconds}) and was restarted"
        ),
        Reason.LIVENESS_FAILING: (
            f"was terminated by a signal (exit code {ended.exit_code}), "
            f"as happens when the liveness probe fails"
        ),
        Reason.CRASH_LOOP_BACK_OFF: f"exited with code {ended.exit_code}{server}",
    }[reason]
    tail = log_tail(ended.message)
    lines = f"; last log lines: {tail}" if tail else ""
    return Finding(reason, f"container {container.name} {how}{lines}")


def _fetch_sentence(ended: Termination) -> str:
    """Return the message of the failed download, which stays valid while the kubelet retries."""
    if ended.exit_code in SIGNAL_EXIT_CODES:
        return "the download was terminated by a signal; the next attempt resumes it"
    if message := log_tail(ended.message):
        return message
    return f"the download exited with code {ended.exit_code} without a message"


def _ended_by_startup_probe(ended: Termination, health: Health) -> bool:
    """Whether the duration of a run matches a kill by the startup probe.

    Kubernetes does not record the cause. Such a run lasts from startupTimeoutSeconds less one
    period up to the last probe and the grace period: 595 to 642 s with 600 s, a period of 5 s, a
    timeout of 2 s and a grace period of 30 s.
    """
    if ended.started_at is None or ended.ended_at is None:
        return False
    lasted = (ended.ended_at - ended.started_at).total_seconds()
    shortest = health.startup_timeout_seconds - health.period_seconds
    longest = (
        health.startup_timeout_seconds
        + 2 * health.period_seconds
        + health.timeout_seconds
        + health.termination_grace_period_seconds
    )
    return shortest <= lasted <= longest
