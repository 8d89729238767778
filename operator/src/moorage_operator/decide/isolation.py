"""Detects that the operator itself is cut off from the pods, from the answers of all models.

    plan.heard --> **Isolation** --> Observed.is_cut_off --> plan: Ready is Unknown

A single silent model may be broken. If most models are silent although their kubelets report them
ready, the problem is on the operator's side. When a model falls silent, some of the answering ones
are polled again, and each of these that is silent causes further polls. An outage is therefore
detected within a few polls instead of a whole poll interval.
"""

from collections.abc import Callable

from moorage_operator.values.observed import ObjectKey

__all__ = ["Isolation"]

LEAST_SILENT = 3
"""Fewer silent models never count as an outage."""

ASKED_AGAIN = 8
"""The number of answering models that are polled again for each model that falls silent."""


class Isolation:
    """Counts the models that answer and those that do not.

    Args:
        ask: Polls a replica now; called with the pod's uid.
        again: Schedules another reconcile of a model.
        changed: Called when an outage begins or ends, with the silent models and all models.
    """

    def __init__(
        self,
        *,
        ask: Callable[[str], None],
        again: Callable[[ObjectKey], None],
        changed: Callable[[int, int], None],
    ) -> None:
        self._ask = ask
        self._again = again
        self._changed = changed
        self._silent: dict[ObjectKey, None] = {}
        self._answering: dict[ObjectKey, str] = {}  # pod uids; the most recently asked one is last
        self.is_cut_off = False

    def record(self, key: ObjectKey, pod_uid: str, *, heard: bool | None) -> None:
        """Record the result of a reconcile.

        Args:
            key: The model.
            pod_uid: One of its polled replicas.
            heard: Whether any replica that its kubelet reports ready answers; None if there is
                no such replica.
        """
        if heard is None:
            self.forget(key)
            return
        was_silent = key in self._silent
        if heard:
            self._silent.pop(key, None)
            self._answering[key] = pod_uid
        else:
            self._answering.pop(key, None)
            self._silent[key] = None
        self._judge()
        if not heard and not was_silent and not self.is_cut_off:
            self._ask_others()

    def forget(self, key: ObjectKey) -> None:
        """Remove a model that is deleted or that no kubelet reports ready."""
        self._silent.pop(key, None)
        self._answering.pop(key, None)
        self._judge()

    def _judge(self) -> None:
        """Compare the counts; an outage begins at one half and ends at a quarter."""
        silent, all_models = len(self._silent), len(self._silent) + len(self._answering)
        share = 4 if self.is_cut_off else 2
        is_cut_off = silent >= LEAST_SILENT and silent * share > all_models
        if is_cut_off == self.is_cut_off:
            return
        self.is_cut_off = is_cut_off
        self._changed(silent, all_models)
        for key in self._silent:
            self._again(key)

    def _ask_others(self) -> None:
        for key in list(self._answering)[:ASKED_AGAIN]:
            uid = self._answering.pop(key)
            self._answering[key] = uid
            self._ask(uid)
