"""Why a container does not run, and its log lines in the status."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from moorage_operator.api.conditions import Finding, Reason
from moorage_operator.decide.pods.pod_diagnosis import (
    LOG_TAIL_CHARACTERS,
    Termination,
    crashed_before,
    ended_reason,
    failed_pod,
    last_run,
    log_tail,
    missing_reference,
    pod_finding,
)
from moorage_operator.values.objects import ContainerObserved, PodObserved, Scheduled
from moorage_operator.values.observed import Reference, ReferenceKind, ReferenceState
from support.operator_values import NOW, model, pending, pod, running, unready


@pytest.mark.parametrize(
    ("logged", "expected"),
    [
        ("", ""),
        ("  no weights\n", "no weights"),
        ("Traceback:\r\n\tat line 1\n", "Traceback:\n    at line 1"),
        ("\x1b[2Jno\x00\x07", "\\x1b[2Jno\\x00\\x07"),
        ("\x1b[0;93mwarning\x1b[m: \x1b[31mno\x1b[31", "warning: no\\x1b[31"),
        ("a\u202eb\u2066c\u2028d", "a\\u202eb\\u2066c\\u2028d"),
        ("\ud800", "\\ud800"),
        ("modèle 模型", "modèle 模型"),
    ],
)
def test_colors_are_removed_other_unprintable_characters_escaped_and_lines_kept(
    logged: str, expected: str
) -> None:
    assert log_tail(logged) == expected


def test_a_log_of_the_greatest_length_is_whole() -> None:
    whole = "x" * LOG_TAIL_CHARACTERS

    assert log_tail(whole) == whole
    assert log_tail(f"y{whole}") == f"...{whole}"


@pytest.mark.parametrize("unit", ["x", "\x1b", "\u202e", "\n"])
def test_a_log_tail_is_limited(unit: str) -> None:
    tail = log_tail("first" + unit * 100_000 + "last")

    assert len(tail) <= LOG_TAIL_CHARACTERS + 3
    assert tail.startswith("...")
    assert tail.endswith("last")
    assert tail.replace("\n", "").isprintable()


# ---------------------------------------------------------------------- containers

OF = model()
HEALTH = OF.health
PULL = (
    "; the registry rejected the credentials, or there were none: "
    "imagePullSecrets must name Secrets that exist in the model's namespace"
)


def runtime(**facts: Any) -> ContainerObserved:
    return replace(ContainerObserved("runtime", image="img:1"), **facts)


def waits(reason: str, message: str = "") -> PodObserved:
    return pending("p", OF, runtime=runtime(waiting_reason=reason, waiting_message=message))


def exits(code: int, reason: str = "Error", message: str = "", **facts: Any) -> PodObserved:
    """A pod whose container ended just now."""
    now = {"exit_code": code, "terminated_reason": reason, "terminated_message": message}
    return pending("p", OF, runtime=runtime(**now, **facts))


def fetches(**facts: Any) -> PodObserved:
    """A pod whose download has this state."""
    return pending("p", OF, init=(ContainerObserved("fetch", image="img:2", **facts),))


def unscheduled(reason: str, message: str) -> PodObserved:
    return pending("p", OF, scheduled=Scheduled(status=False, reason=reason, message=message))


@pytest.mark.parametrize(
    ("pod", "reason", "message"),
    [
        (
            pending("p", OF, node="", scheduled=Scheduled()),
            Reason.PENDING,
            "pod p is waiting for the scheduler",
        ),
        (
            pending("p", OF, node="", scheduler="batch", scheduled=Scheduled()),
            Reason.PENDING,
            (
                "pod p is waiting for the scheduler 'batch', which the pod template names; "
                "if this lasts, check that this scheduler runs"
            ),
        ),
        (
            pending("p", OF, scheduled=Scheduled()),
            Reason.PENDING,
            (
                "pod p is waiting for node 'node-1', which the pod template names; "
                "if this lasts, check that the node exists and is ready"
            ),
        ),
        (pending("p", OF), Reason.PENDING, "pod p is starting on node node-1 (ContainerCreating)"),
        (
            pending("p", OF, node=""),
            Reason.PENDING,
            "pod p is starting on node unknown (ContainerCreating)",
        ),
        (
            pending("p", OF, runtime=runtime()),
            Reason.PENDING,
            "pod p is starting on node node-1 (ContainerCreating)",
        ),
        (
            waits("PodInitializing", "soon"),
            Reason.PENDING,
            "pod p is starting on node node-1 (PodInitializing: soon)",
        ),
        (
            unscheduled("Unschedulable", "0/1 nodes"),
            Reason.UNSCHEDULABLE,
            "no node accepts pod p: 0/1 nodes",
        ),
        (
            unscheduled("SchedulingGated", ""),
            Reason.UNSCHEDULABLE,
            "no node accepts pod p: SchedulingGated",
        ),
        (
            unscheduled("Unschedulable", 'persistentvolumeclaim "w" not found'),
            Reason.VOLUME_MOUNT_FAILED,
            'persistentvolumeclaim "w" not found',
        ),
        (waits("ErrImagePull"), Reason.IMAGE_PULL_BACK_OFF, "image img:1: ErrImagePull"),
        (waits("ErrImageNeverPull", "absent"), Reason.IMAGE_PULL_BACK_OFF, "image img:1: absent"),
        (waits("RegistryUnavailable", "down"), Reason.IMAGE_PULL_BACK_OFF, "image img:1: down"),
        (
            waits("ErrImagePull", 'image "docker.io/library/img:1": 403 Forbidden'),
            Reason.IMAGE_PULL_BACK_OFF,
            f'image img:1: image "docker.io/library/img:1": 403 Forbidden{PULL}',
        ),
        (
            waits("ErrImagePull", 'image "r.example/img:1": absent'),
            Reason.IMAGE_PULL_BACK_OFF,
            'image img:1: image "r.example/img:1": absent',
        ),
        (
            waits("ErrImagePull", 'image "r.example/big-img:1": absent'),
            Reason.IMAGE_PULL_BACK_OFF,
            (
                "image r.example/big-img:1, which is mounted as a volume: "
                'image "r.example/big-img:1": absent'
            ),
        ),
        (waits("InvalidImageName", "bad"), Reason.INVALID_IMAGE_NAME, "image img:1: bad"),
        *(
            (waits(each, "so"), Reason.CREATE_CONTAINER_CONFIG_ERROR, "container runtime: so")
            for each in (
                "CreateContainerConfigError",
                "CreateContainerError",
                "RunContainerError",
                "PreCreateHookError",
                "PreStartHookError",
                "PostStartHookError",
            )
        ),
        (
            waits("CreateContainerConfigError", 'secret "t" not found'),
            Reason.SECRET_NOT_FOUND,
            'container runtime: secret "t" not found',
        ),
        (
            exits(3, message=" no\n"),
            Reason.CRASH_LOOP_BACK_OFF,
            (
                "container runtime exited with code 3, but a model server must not exit; "
                "last log lines: no"
            ),
        ),
        (
            exits(0, "Completed"),
            Reason.CRASH_LOOP_BACK_OFF,
            "container runtime exited with code 0, but a model server must not exit",
        ),
        (
            exits(137),
            Reason.LIVENESS_FAILING,
            (
                "container runtime was terminated by a signal (exit code 137), "
                "as happens when the liveness probe fails"
            ),
        ),
        (
            exits(143),
            Reason.LIVENESS_FAILING,
            (
                "container runtime was terminated by a signal (exit code 143), "
                "as happens when the liveness probe fails"
            ),
        ),
        (
            exits(137, "OOMKilled"),
            Reason.OOM_KILLED,
            "container runtime ran out of memory and was killed; raise its memory limit",
        ),
        (
            exits(137, terminated_started_at=NOW - timedelta(seconds=600), terminated_at=NOW),
            Reason.STARTUP_TIMEOUT,
            (
                "container runtime was not ready within health.startupTimeoutSeconds (600) "
                "and was restarted"
            ),
        ),
        (
            exits(128, "StartError", "exec: absent"),
            Reason.CREATE_CONTAINER_CONFIG_ERROR,
            "container runtime: exec: absent",
        ),
        (
            exits(127, "ContainerCannotRun", "no"),
            Reason.CREATE_CONTAINER_CONFIG_ERROR,
            "container runtime: no",
        ),
        (
            fetches(running_since=NOW),
            Reason.PENDING,
            "pod p is downloading the model; `kubectl logs p -c fetch` shows the progress",
        ),
        (
            fetches(exit_code=0, terminated_reason="Completed"),
            Reason.PENDING,
            "pod p is starting on node node-1 (ContainerCreating)",
        ),
        (
            fetches(exit_code=1, terminated_message="absent\n"),
            Reason.ARTIFACT_DOWNLOAD_FAILED,
            "absent",
        ),
        (
            fetches(exit_code=1),
            Reason.ARTIFACT_DOWNLOAD_FAILED,
            "the download exited with code 1 without a message",
        ),
        (
            fetches(exit_code=137),
            Reason.ARTIFACT_DOWNLOAD_FAILED,
            "the download was terminated by a signal; the next attempt resumes it",
        ),
        (
            fetches(exit_code=137, terminated_reason="OOMKilled"),
            Reason.OOM_KILLED,
            (
                "container fetch ran out of memory and was killed; "
                "raise model.download.resources.limits.memory"
            ),
        ),
        (
            fetches(waiting_reason="ErrImagePull"),
            Reason.IMAGE_PULL_BACK_OFF,
            "image img:2: ErrImagePull",
        ),
    ],
)
def test_the_message_says_why_a_container_does_not_run(
    pod: PodObserved, reason: Reason, message: str
) -> None:
    assert pod_finding(pod, HEALTH, {}) == Finding(reason, message)


FAILED_ONCE = {
    "restart_count": 1,
    "last_terminated_exit_code": 1,
    "last_terminated_message": "no server\n",
}


@pytest.mark.parametrize("facts", [{"exit_code": 143}, {"exit_code": 1, **FAILED_ONCE}])
def test_another_init_container_is_not_called_a_model_server(facts: dict[str, Any]) -> None:
    ended = {"terminated_started_at": NOW - timedelta(seconds=600), "terminated_at": NOW}
    waiting = ContainerObserved("wait-for-it", **facts, **ended)

    found = pod_finding(pending("p", OF, init=(waiting,)), HEALTH, {})

    code = facts["exit_code"]
    sentence = f"container wait-for-it exited with code {code}"
    assert found == Finding(Reason.CRASH_LOOP_BACK_OFF, sentence)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"running_since": NOW, "started": True, "ready": True}, Reason.PENDING),
        # An init container that is not a sidecar is never ready while it runs.
        ({"running_since": NOW, "started": True}, Reason.CRASH_LOOP_BACK_OFF),
        ({"waiting_reason": "CrashLoopBackOff"}, Reason.CRASH_LOOP_BACK_OFF),
    ],
)
def test_a_sidecar_that_works_again_is_not_blamed(facts: dict[str, Any], expected: Reason) -> None:
    proxy = ContainerObserved("istio-proxy", **FAILED_ONCE, **facts)

    found = pod_finding(pending("p", OF, init=(proxy,)), HEALTH, {})

    assert found is not None
    assert found.reason is expected


def test_the_run_that_ended_last_is_reported() -> None:
    before = {
        "last_terminated_reason": "Error",
        "last_terminated_exit_code": 1,
        "last_terminated_message": "before",
        "last_terminated_started_at": NOW - timedelta(seconds=9),
        "last_terminated_at": NOW - timedelta(seconds=8),
    }
    now = {
        "terminated_reason": "OOMKilled",
        "exit_code": 137,
        "terminated_message": "now",
        "terminated_started_at": NOW - timedelta(seconds=2),
        "terminated_at": NOW,
    }

    assert last_run(runtime()) is None
    assert last_run(runtime(**before)) == Termination(
        "Error", 1, "before", NOW - timedelta(seconds=9), NOW - timedelta(seconds=8)
    )
    assert last_run(runtime(**before, **now)) == Termination(
        "OOMKilled", 137, "now", NOW - timedelta(seconds=2), NOW
    )


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, True),
        ({"started": True}, False),
        ({"restart_count": 0}, False),
        ({"last_terminated_exit_code": None}, False),
    ],
)
def test_a_container_has_crashed_until_it_has_started_again(
    facts: dict[str, Any], expected: bool
) -> None:
    again = running(**{
        "started": False, "restart_count": 1, "last_terminated_exit_code": 1, **facts
    })  # fmt: skip
    of = unready("p", OF, runtime=again)

    assert crashed_before(of) is expected
    found = pod_finding(of, HEALTH, {})
    assert (found.reason if found else None) == (Reason.CRASH_LOOP_BACK_OFF if expected else None)


# startupTimeoutSeconds 100, periodSeconds 10, timeoutSeconds 3, terminationGracePeriodSeconds 40
SLOW = replace(
    HEALTH,
    startup_timeout_seconds=100,
    period_seconds=10,
    timeout_seconds=3,
    termination_grace_period_seconds=40,
)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (89, Reason.CRASH_LOOP_BACK_OFF),
        (90, Reason.STARTUP_TIMEOUT),
        (163, Reason.STARTUP_TIMEOUT),
        (164, Reason.CRASH_LOOP_BACK_OFF),
        (None, Reason.CRASH_LOOP_BACK_OFF),
    ],
)
def test_a_run_as_long_as_the_startup_may_last_was_ended_by_the_probe(
    seconds: int | None, expected: Reason
) -> None:
    began = None if seconds is None else NOW - timedelta(seconds=seconds)

    ended = Termination("Error", 1, "", began, NOW)

    assert ended_reason(runtime(), ended, SLOW) is expected


# ---------------------------------------------------------------------- references

MAP = Reference(ReferenceKind.CONFIG_MAP, "files")
CLAIM = Reference(ReferenceKind.PERSISTENT_VOLUME_CLAIM, "weights")
SECRET = Reference(ReferenceKind.SECRET, "token")
GONE, HIDDEN = ReferenceState.MISSING, ReferenceState.FORBIDDEN
HERE = ReferenceState.EXISTS


@pytest.mark.parametrize(
    ("references", "expected"),
    [
        ({}, None),
        ({MAP: HERE, SECRET: HIDDEN}, None),
        (
            {MAP: GONE, SECRET: HERE},
            Finding(
                Reason.VOLUME_MOUNT_FAILED,
                'ConfigMap "files" does not exist in this namespace; create it there',
            ),
        ),
        (
            {SECRET: GONE},
            Finding(
                Reason.SECRET_NOT_FOUND,
                'Secret "token" does not exist in this namespace; create it there',
            ),
        ),
        (
            {SECRET: GONE, CLAIM: GONE},
            Finding(
                Reason.VOLUME_MOUNT_FAILED,
                'PersistentVolumeClaim "weights", Secret "token" do not exist in this namespace; '
                "create it there",
            ),
        ),
    ],
)
def test_missing_objects_are_named(
    references: dict[Reference, ReferenceState], expected: Finding | None
) -> None:
    assert missing_reference(references) == expected
    if expected:
        assert pod_finding(pending("p", OF), HEALTH, references) == expected


@pytest.mark.parametrize(
    ("references", "scheduled", "more"),
    [
        ({SECRET: HERE}, True, ""),
        ({SECRET: HIDDEN}, None, ""),
        (
            {SECRET: HIDDEN, MAP: HERE},
            True,
            (
                '; if this lasts, check that Secret "token" exists in this namespace: '
                "the operator is not allowed to look it up"
            ),
        ),
        (
            {SECRET: HIDDEN, MAP: HIDDEN},
            True,
            (
                '; if this lasts, check that ConfigMap "files", Secret "token" exist in this '
                "namespace: the operator is not allowed to look it up"
            ),
        ),
    ],
)
def test_objects_that_cannot_be_looked_up_are_named_while_a_node_starts_the_pod(
    references: dict[Reference, ReferenceState], scheduled: bool | None, more: str
) -> None:
    node = "node-1" if scheduled else ""
    of = pending("p", OF, node=node, scheduled=Scheduled(status=scheduled))

    found = pod_finding(of, HEALTH, references)

    assert found is not None
    _, _, tail = found.message.partition("; ")
    assert (f"; {tail}" if tail else "") == more


def test_the_newest_failed_pod_of_a_revision_is_reported() -> None:
    def failed(name: str, age: int, **facts: Any) -> PodObserved:
        created = NOW - timedelta(seconds=age)
        return pod(name, "abc", **{"phase": "Failed", "created": created, **facts})

    old = failed("z", 9, reason="OutOfcpu")
    new = failed("a", 5, reason="Evicted", message="disk is full")

    assert failed_pod([], "abc") is None
    assert failed_pod([pod("p", "abc"), failed("q", 1, revision="other")], "abc") is None
    assert failed_pod([new, old, failed("q", 1, revision="other")], "abc") == Finding(
        Reason.PENDING, "pod a failed, waiting for its replacement: Evicted: disk is full"
    )
    assert failed_pod([old, failed("b", 9)], "abc") == Finding(
        Reason.PENDING, "pod z failed, waiting for its replacement: OutOfcpu"
    )
    assert failed_pod([failed("c", 7)], "abc") == Finding(
        Reason.PENDING, "pod c failed, waiting for its replacement"
    )
