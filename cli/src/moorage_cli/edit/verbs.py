"""The commands that set one field of the spec each, such as `moorage promote`; pure.

resource, arguments --> Edit --> ask.cluster --> the operator acts on the edited spec

A promotion or an abort of a revision that is not in progress would have no effect, so it is
refused with the revision that is.
"""

from datetime import UTC, datetime
from typing import Any

from moorage_cli.edit.model import Edit, Resource, mapping
from moorage_cli.printing.failures import Failure

__all__ = ["abort", "pause", "promote", "restart", "resume", "retry", "scale"]


def promote(model: Resource, revision: str = "") -> Edit:
    """Approve the remaining steps of the canary, or one step with `REVISION/STEP`.

    An abort that the operator has not carried out yet, such as that of a paused model, is taken
    back: it would win.

    Raises:
        Failure: The canary or step does not exist.
    """
    candidate = _candidate(model)
    name, slash, step = (revision or candidate).partition("/")
    if name != candidate:
        raise Failure(
            f"{model.name}: revision {name} is not rolled out: the candidate is {candidate}"
        )
    strategy = str(model.rollout.get("strategy", "RollingUpdate"))
    if strategy != "Canary":
        raise Failure(
            f"{model.name}: strategy {strategy} has no steps to promote: the rollout of revision "
            f"{name} completes when its replicas serve"
        )
    if slash and not (step.isdecimal() and 1 <= int(step) <= _count_steps(model)):
        raise Failure(
            f"{model.name}: step {step!r} is invalid: must be a number from 1 to "
            f"{_count_steps(model)}"
        )
    value = f"{name}/{int(step)}" if slash else name
    patch = model.merge({"rollout": {"promote": value, **_removed(model, "abort")}})
    what = f"step {step} of revision {name}" if slash else f"revision {name}"
    return Edit(patch, f"{what} is promoted{_if_idle(model)}", value)


def abort(model: Resource, revision: str = "") -> Edit:
    """Give up the revision that is rolled out, or one whose failed rollout is paused.

    Raises:
        Failure: The revision does not exist, or no earlier revision has served.
    """
    known = model.revision("candidate") or model.revision("rejected")
    candidate = known or _candidate(model)
    if revision and revision != candidate:
        raise Failure(
            f"{model.name}: revision {revision} is not rolled out: the candidate is {candidate}"
        )
    if not revision and not model.is_described:
        _candidate(model)
    good = model.revision("lastGood")
    if not good:
        raise Failure(
            f"{model.name}: revision {candidate} is the first one, so there is none to return to: "
            f"set spec.suspend to true to stop it"
        )
    patch = model.merge({"rollout": {"abort": candidate}})
    done = f"revision {candidate} is aborted: revision {good} runs instead{_if_idle(model)}"
    return Edit(patch, done, candidate)


def restart(model: Resource, now: datetime) -> Edit:
    """Start a rollout of the same spec with new pods.

    Args:
        model: The model.
        now: The current time, aware.
    """
    patch = model.merge({"rollout": {"restartedAt": _restart_time(model, now)}})
    return Edit(patch, f"new pods replace all earlier ones{_if_idle(model)}")


def retry(model: Resource, now: datetime) -> Edit:
    """Start the rollout of a revision that was given up once more, as a new revision.

    Args:
        model: The model.
        now: The current time, aware.

    Raises:
        Failure: No revision was given up.
    """
    rejected = model.revision("rejected")
    if not rejected:
        _candidate(model)
        raise Failure(
            f"{model.name}: no rollout was given up: revision {model.revision('candidate')} is "
            f"rolled out: run moorage why {model.name}"
        )
    rollout = {"restartedAt": _restart_time(model, now), **_removed(model, "promote", "abort")}
    done = f"the spec of revision {rejected} is tried again, as a new revision{_if_idle(model)}"
    return Edit(model.merge({"rollout": rollout}), done)


def scale(model: Resource, replicas: int) -> Edit:
    """Set the number of replicas.

    Raises:
        Failure: An autoscaler sets it.
    """
    scaling = mapping(model.spec.get("scaling"))
    if scaling:
        low, high = scaling.get("minReplicas", 1), scaling.get("maxReplicas")
        raise Failure(
            f"{model.name}: an autoscaler sets the replicas to {low} to {high}, by spec.scaling: "
            "edit minReplicas and maxReplicas there, or remove spec.scaling"
        )
    count = f"{replicas} replica{'' if replicas == 1 else 's'}"
    if model.spec.get("replicas", 1) == replicas:
        return Edit(None, f"has {count} already")
    return Edit(model.merge({"replicas": replicas}), f"gets {count}{_if_idle(model)}")


def pause(model: Resource) -> Edit:
    """Keep the operator from writing to the objects of the model."""
    if model.spec.get("paused") is True:
        return Edit(None, "is already paused")
    return Edit(
        model.merge({"paused": True}), "is paused: the operator changes none of its objects"
    )


def resume(model: Resource) -> Edit:
    """End a pause."""
    if model.spec.get("paused") is not True:
        return Edit(None, "is not paused")
    done = "is resumed: pending edits roll out, and manual edits are reverted"
    return Edit(model.merge({"paused": False}), done)


def _candidate(model: Resource) -> str:
    """The revision that is rolled out.

    Raises:
        Failure: There is none, or the status does not describe this spec yet.
    """
    if not model.is_described:
        raise Failure(
            f"{model.name}: the operator has not processed generation {model.generation} of the "
            "spec yet: run the command again"
        )
    if candidate := model.revision("candidate"):
        return candidate
    if rejected := model.revision("rejected"):
        raise Failure(
            f"{model.name}: revision {rejected} was given up: run moorage why {model.name}"
        )
    good = model.revision("lastGood")
    raise Failure(f"{model.name}: no rollout is in progress: revision {good or '(none)'} serves")


def _count_steps(model: Resource) -> int:
    canary = model.rollout.get("canary")
    steps = canary.get("steps") if isinstance(canary, dict) else None
    return len(steps) if isinstance(steps, list) else 0


def _restart_time(model: Resource, now: datetime) -> str:
    """The time as a text that differs from that of the previous restart."""
    moment = now.astimezone(UTC)
    text = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    if text == model.rollout.get("restartedAt"):
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return text


def _removed(model: Resource, *fields: str) -> dict[str, Any]:
    """The part of a merge patch that removes these fields of `spec.rollout`, if they are set."""
    return {field: None for field in fields if field in model.rollout}


def _if_idle(model: Resource) -> str:
    """When an edit takes effect that waits for another one."""
    awaited = [
        text
        for field, text in (
            ("suspend", "spec.suspend is false"),
            ("paused", "the model is resumed"),
        )
        if model.spec.get(field) is True
    ]
    return f", once {' and '.join(awaited)}" if awaited else ""
