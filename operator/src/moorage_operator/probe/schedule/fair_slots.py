"""A bounded number of slots, shared so that no tenant can take all of them; pure.

    put(Turn) --> [a queue per namespace] --> take() --> give(Turn)

A namespace may hold as many slots as are free. A model may hold half as many, and so may those
replicas of a namespace whose last poll timed out. So slots remain for others, however many tenants
are greedy: of 1,024 slots one namespace gets at most 512; ten namespaces get 93 each and leave 94.
Nothing has to be configured, and in an idle cluster nearly all slots go to those who need them.

Source: Choudhury and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches".
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from moorage_operator.values.observed import ObjectKey

__all__ = ["FairSlots", "Turn"]


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """One poll or test run that needs a slot; each run of a replica is a new turn.

    Attributes:
        key: The model.
        uid: The uid of the replica's pod.
        silent: Whether its last poll timed out.
    """

    key: ObjectKey
    uid: str
    silent: bool = False


class _Slots:
    """The number of free slots, and the slots held by each group."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._held: Counter[Hashable] = Counter()

    def has_room(self, group: Hashable, weight: int) -> bool:
        return weight * self._held[group] < self._free

    def take(self, groups: Iterable[Hashable]) -> None:
        self._free -= 1
        self._held.update(groups)

    def give(self, groups: Iterable[Hashable]) -> None:
        self._free += 1
        for group in groups:
            self._held[group] -= 1
            if not self._held[group]:
                del self._held[group]


_Line = OrderedDict[ObjectKey, deque[Turn]]


class FairSlots:
    """Assigns slots to waiting turns, round-robin.

    Args:
        count: The number of slots.
        starting: The number of slots for turns that have just begun. Each turn takes one of these
            too, and returns it when `started` is called.
    """

    def __init__(self, count: int, *, starting: int) -> None:
        self._all = _Slots(count)
        self._starting = _Slots(starting)
        self._lines: OrderedDict[tuple[str, bool], _Line] = OrderedDict()
        self._begun: set[Turn] = set()

    def __bool__(self) -> bool:
        """Whether any turn is waiting."""
        return bool(self._lines)

    def put(self, turn: Turn) -> None:
        """Queue a turn for a slot."""
        line = self._lines.setdefault((turn.key.namespace, turn.silent), OrderedDict())
        line.setdefault(turn.key, deque()).append(turn)

    def take(self) -> Turn | None:
        """Assign a slot to the next turn and return it; None if no turn may have one."""
        for name in list(self._lines):
            line = self._lines[name]
            if not self._has_room(_namespace_groups(*name)):
                continue
            for key, turns in line.items():
                if self._has_room([(key, 2)]):
                    turn = turns.popleft()
                    self._to_the_end(name, line, key)
                    self._all.take(_groups(turn))
                    self._starting.take(_groups(turn))
                    self._begun.add(turn)
                    return turn
        return None

    def started(self, turn: Turn) -> None:
        """Return the starting slot of a turn that waits for an answer, which costs nothing."""
        if turn in self._begun:
            self._begun.remove(turn)
            self._starting.give(_groups(turn))

    def give(self, turn: Turn) -> None:
        """Return the slots of a finished turn."""
        self.started(turn)
        self._all.give(_groups(turn))

    def _has_room(self, groups: Iterable[tuple[Hashable, int]]) -> bool:
        return all(
            slots.has_room(group, weight)
            for group, weight in groups
            for slots in (self._all, self._starting)
        )

    def _to_the_end(self, name: tuple[str, bool], line: _Line, key: ObjectKey) -> None:
        """Move a model and its namespace to the end of the queues."""
        line.move_to_end(key)
        if not line[key]:
            del line[key]
        self._lines.move_to_end(name)
        if not line:
            del self._lines[name]


def _namespace_groups(namespace: str, silent: bool) -> list[tuple[Hashable, int]]:
    groups: list[tuple[Hashable, int]] = [(namespace, 1)]
    return [*groups, ((namespace, "silent"), 2)] if silent else groups


def _groups(turn: Turn) -> list[Hashable]:
    groups = [group for group, _ in _namespace_groups(turn.key.namespace, turn.silent)]
    return [*groups, turn.key]
