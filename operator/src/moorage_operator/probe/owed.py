"""Which replicas owe an answer that their model's next pass had better have.

    ask_now, a new container --> ask --> [poll] --> settle
                                  `--> is_owed: the queue lets a change of readiness wait

A pod that becomes ready is asked at once, and what it answers comes a moment later: a pass in
between would find out nothing that the one after it does not. Polls that come round by themselves
are not counted; nobody waits for them.
"""

from moorage_operator.state import ObjectKey

__all__ = ["Owed"]


class Owed:
    """Replicas that were asked and have not answered, by their models."""

    def __init__(self) -> None:
        self._by: dict[ObjectKey, set[str]] = {}

    def ask(self, key: ObjectKey, uid: str) -> None:
        """The pod with this uid is asked, now or as soon as there is room."""
        self._by.setdefault(key, set()).add(uid)

    def settle(self, key: ObjectKey, uid: str) -> None:
        """It has answered, or nobody wants to know any more."""
        owing = self._by.get(key)
        if owing is None:
            return
        owing.discard(uid)
        if not owing:
            del self._by[key]

    def is_owed(self, key: ObjectKey) -> bool:
        """Whether a replica of the model has yet to answer."""
        return key in self._by
