"""Checks that no operator takes back what another one has written for the present spec.

The former leader may have seen an edit of which the watch of the new one does not know yet.
"""

from collections.abc import Iterator

from simulation.runtimes import NAME, RUNTIMES, runtime_of
from simulation.scaling import size_of
from simulation.stored import Object, Write, owners_of
from simulation.world import World

JUST_SECONDS = 1.0
"""An operator may still act on a spec that was edited less than this ago."""


class Reversals:
    """The last write of each Deployment, and when each model and the runtime were last edited."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._writes: dict[str, tuple[str, float]] = {}  # by whom and when, by the uid
        self._edited: dict[str, float] = {}  # by the uid of the model
        self._runtime_edited = 0.0

    def follow(self, write: Write) -> Iterator[str]:
        """Return what is wrong with a write; an operator that gets old lists may repeat one."""
        if write.after is None or write.part:
            return
        uid, now = write.after["metadata"]["uid"], self._world.loop.time()
        if write.plural == "inferencemodels":
            self._edited[uid] = now
        elif write.plural == RUNTIMES:
            self._runtime_edited = now
        elif write.plural == "deployments" and self._world.weather.old_lists:
            self._writes.pop(uid, None)
        elif write.plural == "deployments":
            former, at = self._writes.get(uid, ("", 0.0))
            self._writes[uid] = write.who, now
            is_other = former.startswith("operator") and former != write.who
            if write.who.startswith("operator") and is_other:
                yield from self._undone(write, at)

    def _undone(self, write: Write, at: float) -> Iterator[str]:
        """Return what a write took back of a Deployment that was as the spec asks for."""
        for model in self._world.api.all("inferencemodels", write.key[0]):
            uid, spec = model["metadata"]["uid"], model["spec"]
            runtime = runtime_of(self._world) if spec["runtime"].get("name") == NAME else None
            edited = max(self._edited.get(uid, 0.0), self._runtime_edited if runtime else 0.0)
            is_settled = edited < at and self._world.loop.time() - edited > JUST_SECONDS
            revisions = (model.get("status") or {}).get("revisions") or {}
            is_back = revisions.get("rejected") or spec.get("rollout", {}).get("abort")
            if write.before is None or uid not in owners_of(write.before) or is_back:
                continue
            was = _fits(write.before, spec, runtime or {})
            is_ = _fits(write.after or {}, spec, runtime or {})
            if is_settled and was and not is_:
                yield f"{write.who} takes back what {write.key[1]} got for the present spec"


def _fits(deployment: Object, spec: Object, runtime: Object) -> bool:
    """Whether a Deployment has what the spec, and a runtime that models follow, ask for."""
    template, size = deployment["spec"]["template"], deployment["spec"]["replicas"]
    container = template["spec"]["containers"][0]
    wanted = 0 if spec.get("suspend") else size_of(spec)
    if container["image"] != spec["runtime"]["image"] or size != wanted:
        return False
    if runtime.get("updatePolicy") != "Automatic":
        return True
    labels = runtime.get("podTemplate", {}).get("metadata", {}).get("labels", {})
    tier = template["metadata"]["labels"].get("tier")
    return _levels_of(container) == _levels_of(runtime) and tier == labels.get("tier")


def _levels_of(container: Object) -> list[str]:
    """Return the values of LEVEL, which differ between contents of the runtime."""
    return [each["value"] for each in container.get("env") or [] if each["name"] == "LEVEL"]
