"""From what Kubernetes reports of a pod to the reason why it does not run, with its evidence.

`pod_finding` judges one pod; `replicas` puts the server's own answers beside it. None means: the
container runs, and nothing that Kubernetes knows speaks against it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from .api.v1alpha1 import Health
from .conditions import Finding, Reason
from .names import FETCH_CONTAINER
from .state import Reference, ReferenceKind, ReferenceState
from .watched import ContainerObserved, PodObserved

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
# A run that never began: the command does not exist or may not be run. The message is the
# container runtime's, no log.
NEVER_BEGAN_REASONS = {"StartError", "ContainerCannotRun"}
SIGNAL_EXIT_CODES = {137, 143}  # 128 + SIGKILL, 128 + SIGTERM: how a kubelet ends a container
LOG_TAIL_CHARACTERS = 600
MISSING_CLAIM = re.compile(r'persistentvolumeclaim "[^"]*" not found')
# How kubelets and container runtimes name the image that they pull.
PULLED_IMAGE = re.compile(r'image \\?"([^"\\]+)')
MISSING_SECRET = re.compile(r'secrets? "[^"]*" not found')


@dataclass(frozen=True, slots=True)
class Termination:
    """One ended run of a container."""

    reason: str
    exit_code: int
    message: str
    started_at: datetime | None
    ended_at: datetime | None


def pod_finding(
    pod: PodObserved, health: Health, references: Mapping[Reference, ReferenceState]
) -> Finding | None:
    """Why the pod's runtime container does not run, or did not stay up; None where it runs."""
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
    return Finding(Reason.PENDING, _pending_sentence(pod))


def crashed_before(pod: PodObserved) -> bool:
    """Whether the container runs after a failed run and has not been ready since.

    The startup probe asks what the readiness probe asks, so a container that has started has been
    ready. Until then the failed run is the news: reasons would else alternate with every restart.
    """
    container = pod.runtime
    return (
        container.restart_count > 0 and not container.started and last_run(container) is not None
    )


def missing_reference(references: Mapping[Reference, ReferenceState]) -> Finding | None:
    """The first object that the pods need and that does not exist."""
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
    """What ended the newest pod of a revision that a node gave up, such as an eviction."""
    failed = [pod for pod in pods if pod.phase == "Failed" and pod.revision == revision]
    if not failed:
        return None
    newest = max(failed, key=lambda pod: (pod.created, pod.name))
    why = ": ".join(text for text in (newest.reason, newest.message) if text)
    return Finding(Reason.PENDING, f"pod {newest.name} failed, another is awaited: {why}")


def last_run(container: ContainerObserved) -> Termination | None:
    """The run that ended last: the present state's, else the one before it."""
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
    """What an ended run of a container that should not have ended so amounts to."""
    if ended.reason == "OOMKilled":
        return Reason.OOM_KILLED
    if ended.reason in NEVER_BEGAN_REASONS:
        return Reason.CREATE_CONTAINER_CONFIG_ERROR
    if container.name == FETCH_CONTAINER:
        return Reason.ARTIFACT_DOWNLOAD_FAILED
    if _ended_by_startup_probe(ended, health):
        return Reason.STARTUP_TIMEOUT
    if ended.exit_code in SIGNAL_EXIT_CODES:
        return Reason.LIVENESS_FAILING
    return Reason.CRASH_LOOP_BACK_OFF


def log_tail(message: str) -> str:
    """The end of a container's last log lines."""
    text = message.strip()
    return text if len(text) <= LOG_TAIL_CHARACTERS else f"...{text[-LOG_TAIL_CHARACTERS:]}"


def _unscheduled_finding(pod: PodObserved) -> Finding:
    message = pod.scheduled.message or pod.scheduled.reason
    if MISSING_CLAIM.search(message):
        return Finding(Reason.VOLUME_MOUNT_FAILED, message)
    return Finding(Reason.UNSCHEDULABLE, f"no node takes pod {pod.name}: {message}")


def _pending_sentence(pod: PodObserved) -> str:
    if pod.scheduled.status is None:
        return f"pod {pod.name} waits for the scheduler"
    fetching = any(
        each.name == FETCH_CONTAINER and each.running_since is not None for each in pod.init
    )
    if fetching:
        told = f"`kubectl logs {pod.name} -c {FETCH_CONTAINER}` shows how far it is"
        return f"pod {pod.name} is downloading the model; {told}"
    waiting = pod.runtime.waiting_reason or "ContainerCreating"
    detail = f": {pod.runtime.waiting_message}" if pod.runtime.waiting_message else ""
    return f"pod {pod.name} starts on node {pod.node or 'unknown'} ({waiting}{detail})"


def _init_finding(pod: PodObserved, health: Health) -> Finding | None:
    findings = (_container_finding(container, health) for container in pod.init)
    return next((found for found in findings if found), None)


def _container_finding(container: ContainerObserved, health: Health) -> Finding | None:
    """What a container that does not run waits for, or how it ended."""
    waiting = container.waiting_reason
    detail = container.waiting_message or waiting
    if waiting in IMAGE_PULL_REASONS:
        return Finding(Reason.IMAGE_PULL_BACK_OFF, _pull_sentence(container.image, detail))
    if waiting == "InvalidImageName":
        return Finding(Reason.INVALID_IMAGE_NAME, f"image {container.image}: {detail}")
    if waiting in CONFIG_REASONS:
        return _config_finding(container, detail)
    ended = last_run(container)
    if ended is None or _completed_init(container, ended):
        return None
    return _ended_finding(container, ended, health)


def _pull_sentence(image: str, detail: str) -> str:
    """The image that cannot be pulled: the container's own, or that of a volume it mounts."""
    named = PULLED_IMAGE.search(detail)
    # a container runtime writes the registry out that an image's name leaves out
    if named is None or f"/{named[1]}".endswith(f"/{image}"):
        return f"image {image}: {detail}"
    return f"image {named[1]}, which a volume of the pod is made of: {detail}"


def _completed_init(container: ContainerObserved, ended: Termination) -> bool:
    """An init container has to end; every other container has to run."""
    return container.name != "runtime" and ended.exit_code == 0


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
    how = {
        Reason.OOM_KILLED: f"ran out of memory and was killed; {advice}",
        Reason.STARTUP_TIMEOUT: (
            f"was not ready within health.startupTimeoutSeconds "
            f"({health.startup_timeout_seconds}) and was restarted"
        ),
        Reason.LIVENESS_FAILING: (
            f"was ended by a signal (exit code {ended.exit_code}), "
            f"as the kubelet does when the liveness probe fails"
        ),
        Reason.CRASH_LOOP_BACK_OFF: (
            f"exited with code {ended.exit_code}, and a server has to keep running"
        ),
    }[reason]
    tail = log_tail(ended.message)
    lines = f"; its last lines: {tail}" if tail else ""
    return Finding(reason, f"container {container.name} {how}{lines}")


def _fetch_sentence(ended: Termination) -> str:
    """The sentence that the container left; it is told on while the kubelet tries again."""
    if ended.exit_code in SIGNAL_EXIT_CODES:
        return "the download was ended by a signal; the next attempt goes on where it was"
    if told := log_tail(ended.message):
        return told
    return f"the download ended with code {ended.exit_code} and said nothing"


def _ended_by_startup_probe(ended: Termination, health: Health) -> bool:
    """Whether the run lasted as long as the startup probe lets a run last.

    Kubernetes marks no cause on such an end, so the length of the run tells: from
    startupTimeoutSeconds less one period up to the last probe and the grace period. With 600 s,
    a period of 5 s, a timeout of 2 s and a grace of 30 s that is 595 to 642 s.
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
