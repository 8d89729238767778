"""The InferenceRuntimes and the labels of namespaces, in memory.

reflectors --> RuntimeStore --> Runtimes --> decide.runtimes
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from moorage_operator.api.inference_runtime import InferenceRuntime, parse_inference_runtime
from moorage_operator.kube.versions import is_newer
from moorage_operator.values.runtimes import Runtimes

__all__ = ["RuntimeStore"]


class RuntimeStore:
    """All runtimes.

    Args:
        changed: Called with a runtime before and after a change of its spec, None if absent.
        namespace_changed: Called with a namespace whose labels changed.
        access_changed: Called when runtimes or labels can be read again, or no longer.

    Attributes:
        current: The runtimes.
        statuses: The status of each runtime at the API server, by name.
    """

    def __init__(
        self,
        *,
        changed: Callable[[InferenceRuntime | None, InferenceRuntime | None], None],
        namespace_changed: Callable[[str], None],
        access_changed: Callable[[], None],
    ) -> None:
        self.current = Runtimes()
        self.statuses: dict[str, Mapping[str, Any]] = {}
        self._changed = changed
        self._namespace_changed = namespace_changed
        self._access_changed = access_changed
        self._names: dict[str, str] = {}  # by uid
        self._versions: dict[str, str] = {}  # by uid
        self._namespaces: dict[str, str] = {}  # names by uid
        self._labels: Mapping[str, Mapping[str, str]] | None = None
        self._may_read_labels = True

    def put_unreadable(self, why: str, *, is_forbidden: bool = False) -> None:
        """Set why runtimes cannot be read; "" if they can."""
        if why != self.current.unreadable:
            self._replace(unreadable=why, is_forbidden=is_forbidden)
            self._access_changed()

    def put_labels_access(self, *, may_read: bool) -> None:
        """Set whether the labels of namespaces may be read.

        While they may not, they could have changed, so no plan uses those that are known.
        """
        if may_read is self._may_read_labels:
            return
        self._may_read_labels = may_read
        if self._labels is not None:
            self._put_labels(self._labels)
            self._access_changed()

    def put_runtime(self, body: Mapping[str, Any]) -> None:
        """Store a runtime, unless it is known in a later version."""
        uid, version = body["metadata"]["uid"], body["metadata"]["resourceVersion"]
        if not is_newer(version, self._versions.get(uid, "")):
            return
        self._versions[uid] = version
        runtime = parse_inference_runtime(body)
        before = self.current.by_name.get(runtime.name)
        self._names[runtime.uid] = runtime.name
        self.statuses[runtime.name] = body.get("status") or {}
        if before != runtime:
            self._replace(by_name={**self.current.by_name, runtime.name: runtime})
            self._changed(before, runtime)

    def drop_runtime(self, uid: str, version: str = "") -> None:
        """Remove a deleted runtime, unless another one has its name.

        If a list lacks it, `version` is that of the list: its events from before do not bring it
        back. The watch drops it once more, without a version.
        """
        self._versions.pop(uid, None)
        if version:
            self._versions[uid] = version
        name = self._names.pop(uid, "")
        before = self.current.by_name.get(name)
        if before is None or before.uid != uid:
            return
        left = {key: each for key, each in self.current.by_name.items() if key != name}
        del self.statuses[name]
        self._replace(by_name=left)
        self._changed(before, None)

    def known(self) -> list[tuple[InferenceRuntime, str]]:
        """Return the runtimes with their resourceVersions."""
        return [(each, self._versions[each.uid]) for each in self.current.by_name.values()]

    def put_namespace(self, body: Mapping[str, Any]) -> None:
        """Store the labels of a namespace."""
        metadata = body["metadata"]
        name, labels = metadata["name"], dict(metadata.get("labels") or {})
        self._namespaces[metadata["uid"]] = name
        known = self._labels or {}
        if known.get(name) != labels:
            self._put_labels({**known, name: labels})
            self._namespace_changed(name)

    def drop_namespace(self, uid: str) -> None:
        """Remove a deleted namespace."""
        name = self._namespaces.pop(uid, "")
        known = self._labels or {}
        if name in known and name not in self._namespaces.values():
            self._put_labels({key: labels for key, labels in known.items() if key != name})

    def _put_labels(self, labels: Mapping[str, Mapping[str, str]]) -> None:
        self._labels = labels
        self._replace(namespace_labels=labels if self._may_read_labels else None)

    def _replace(self, **parts: Any) -> None:
        self.current = replace(self.current, **parts, version=self.current.version + 1)
