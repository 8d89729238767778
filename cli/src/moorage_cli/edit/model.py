"""What the commands that edit a model read of its resource; pure.

A field of an unexpected type counts as absent, because the CRD may have another version.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

__all__ = ["Edit", "Patch", "Resource", "mapping"]

Patch = Mapping[str, Any] | list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of a model.

    Args:
        patch: A merge patch, or the list of operations of a JSON patch; None: nothing to do.
        done: What the edit does, as a sentence without a full stop.
        pinned: The revision that it names, which a repetition must name as well.
    """

    patch: Patch | None
    done: str
    pinned: str = ""


class Resource:
    """An InferenceModel as the API server returned it."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        metadata = mapping(body.get("metadata"))
        self.name = str(metadata.get("name", ""))
        self.version = str(metadata.get("resourceVersion", ""))
        self.generation: object = metadata.get("generation")
        self.spec = mapping(body.get("spec"))
        self.status = mapping(body.get("status"))
        self._revisions = mapping(self.status.get("revisions"))

    @property
    def is_described(self) -> bool:
        """Whether the status describes the current spec."""
        return self.status.get("observedGeneration") == self.generation

    @property
    def rollout(self) -> Mapping[str, Any]:
        """`spec.rollout`."""
        return mapping(self.spec.get("rollout"))

    def revision(self, name: str) -> str:
        """A recorded revision, such as `lastGood`; empty if there is none."""
        found = self._revisions.get(name)
        found = found.get("revision") if isinstance(found, Mapping) else found
        return found if isinstance(found, str) else ""

    @property
    def unproven(self) -> frozenset[str]:
        """The revisions that were given up or replaced before they served."""
        found = self._revisions.get("unproven")
        listed = cast("list[object]", found) if isinstance(found, list) else []
        return frozenset(each for each in listed if isinstance(each, str))

    def merge(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """A merge patch of the spec, which the API server refuses for a newer version."""
        return {"metadata": {"resourceVersion": self.version}, "spec": spec}


def mapping(value: object) -> Mapping[str, Any]:
    """The value if it is an object, otherwise an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
