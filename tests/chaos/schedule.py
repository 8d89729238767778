"""Which fault happens when: the same for the same seed. Pure."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """What is taken away."""

    OPERATOR_DELETED = "operator pod deleted"
    OPERATOR_KILLED = "operator killed"
    LEADER_KILLED = "leading operator killed"
    OPERATOR_CUT = "operator cut off the network"
    API_SERVER = "kube-apiserver killed"
    ETCD = "etcd killed"
    KUBELET = "kubelet killed"
    CONTAINERD = "containerd killed"
    POD_DELETED = "model pod deleted"
    SERVER_KILLED = "model server killed"
    EDIT = "model edited"


PARTS: Mapping[Fault, str] = {
    Fault.API_SERVER: "kube-apiserver",
    Fault.ETCD: "etcd",
    Fault.KUBELET: "kubelet",
    Fault.CONTAINERD: "containerd",
}
"""Faults of a part of the node, and the part's name."""

OF_MODELS = frozenset({Fault.POD_DELETED, Fault.SERVER_KILLED, Fault.EDIT})

_WEIGHTS: Mapping[Fault, int] = {
    Fault.OPERATOR_DELETED: 2,
    # Few kills: the kubelet doubles its back-off with each crash of the same container.
    Fault.OPERATOR_KILLED: 1,
    Fault.LEADER_KILLED: 1,
    Fault.OPERATOR_CUT: 2,
    Fault.POD_DELETED: 3,
    Fault.SERVER_KILLED: 2,
    Fault.EDIT: 4,
    **dict.fromkeys(PARTS, 2),
}
_PAUSE_SECONDS = (3.0, 9.0)
_AWAY_SECONDS = (1.0, 12.0)
_REPAIR_SECONDS = 30.0
"""Least time between two faults of the node: the next part fails after the last one is back."""


@dataclass(frozen=True, slots=True)
class Step:
    """One fault.

    Attributes:
        at: Seconds since the start.
        fault: What happens.
        model: Name of the model for faults of models, else empty.
        pick: Chooses among pods, from 0 to below 1.
        lasts: Seconds until what was taken away is given back.
    """

    at: float
    fault: Fault
    model: str
    pick: float
    lasts: float

    def __str__(self) -> str:
        away = f" for {self.lasts:.0f} s" if self.lasts else ""
        return f"{self.at:6.1f} s  {self.fault}{away}{f': {self.model}' if self.model else ''}"


def schedule(seed: str, seconds: float, models: Sequence[str]) -> list[Step]:
    """The steps of a run, all begun before its end.

    Every kind of fault comes once before any comes again, as far as the time allows.
    """
    source = random.Random(seed)
    steps: list[Step] = []
    queue: list[Fault] = []
    node_free = at = source.uniform(*_PAUSE_SECONDS)
    while at < seconds:
        if not queue:
            again = [fault for fault, weight in _WEIGHTS.items() for _ in range(weight - 1)]
            source.shuffle(again)
            first = list(_WEIGHTS)
            source.shuffle(first)
            queue = first + again
        free = (i for i, fault in enumerate(queue) if fault not in PARTS or at >= node_free)
        if (index := next(free, None)) is not None:
            fault = queue.pop(index)
            model = source.choice(models) if fault in OF_MODELS else ""
            away = fault in PARTS or fault is Fault.OPERATOR_CUT
            lasts = source.uniform(*_AWAY_SECONDS) if away else 0.0
            if fault in PARTS:
                node_free = at + lasts + _REPAIR_SECONDS
            steps.append(Step(at, fault, model, source.random(), lasts))
        at += source.uniform(*_PAUSE_SECONDS)
    return steps
