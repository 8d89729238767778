"""Breaks the operator on purpose and counts the seeds that detect it.

Run `python tests/simulation/breaks.py`; `--once` stops each break at the first failing seed.
"""

import argparse
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "localcluster")]

from moorage_operator.api.conditions import Finding
from moorage_operator.api.scaling import Scaling
from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.decide import plan
from moorage_operator.decide.pods import replicas
from moorage_operator.decide.status.template import TemplateState
from moorage_operator.kube.bodies import Page
from moorage_operator.kube.client import KubeClient
from moorage_operator.kube.kinds import INFERENCE_MODEL_STATUS, Kind
from moorage_operator.kube.reflector import Reflector
from moorage_operator.reconcile.runtime_fleet import RuntimeFleet
from moorage_operator.reconcile.workqueue import WorkQueue
from moorage_operator.store.store import Store
from moorage_operator.values.answers import ProbeResult
from moorage_operator.values.objects import PodObserved
from moorage_operator.values.observed import Refusal
from moorage_operator.watch.optional_kinds import OptionalKinds
from moorage_operator.write import children
from moorage_operator.write.children import Applier
from moorage_operator.write.taken_names import BEING_DELETED
from simulation import process
from simulation.history import Outcome
from simulation.run import command, parts_of, play_part


def write_statuses_without_version() -> None:
    """Apply a status to any object with the name of the model."""
    whole = KubeClient.apply

    async def broken(
        self: KubeClient, kind: Kind, body: Mapping[str, Any], *, field_manager: str
    ) -> dict[str, Any]:
        if kind is INFERENCE_MODEL_STATUS:
            metadata = {k: v for k, v in body["metadata"].items() if k != "resourceVersion"}
            body = {**body, "metadata": metadata}
        return await whole(self, kind, body, field_manager=field_manager)

    KubeClient.apply = broken


def write_without_leading() -> None:
    """Write even if another process is the leader."""

    async def broken(
        self: KubeClient, verb: str, kind: Kind, path: str, **request: Any
    ) -> dict[str, Any]:
        return await self._call(verb, kind, path, **request)

    KubeClient._write = broken


def never_retry_passes() -> None:
    """After a failed pass, wait for the next event."""

    def broken(*_: Any, **__: Any) -> float:
        return 0.0

    WorkQueue.retry = broken


def never_retry_children() -> None:
    """Wait a day before retrying a failed write of a child."""
    whole = children._paced

    def broken(*arguments: Any) -> Refusal:
        return replace(whole(*arguments), retry_seconds=86_400.0)

    children._paced = broken


def miss_deletions() -> None:
    """Keep objects that are missing from the list after a broken watch."""
    whole = Reflector._list

    async def broken(self: Reflector) -> None:
        known, self._known = self._known, set()
        try:
            await whole(self)
        finally:
            self._known |= known

    Reflector._list = broken


def keep_lent_models() -> None:
    """Read a model that moved to another installation into the store."""
    Store.has, page = lambda *_: True, KubeClient.page

    async def broken(self: KubeClient, *of: Any, name: str = "", **options: Any) -> Page:
        return await page(self, *of, name=name, **options | ({"selector": ""} if name else {}))

    KubeClient.page = broken


def write_while_paused() -> None:
    """Apply the children of a paused model."""
    plan._without_writes = lambda made: made


def write_while_idle() -> None:
    """Write something else into each status every ten minutes."""
    whole, after = plan.make_status, plan._again_after

    def make_status(*arguments: Any, now: datetime, **others: Any) -> dict[str, Any]:
        return {**whole(*arguments, now=now, **others), "omittedReplicas": now.minute // 10}

    plan.make_status = make_status
    plan._again_after = lambda *arguments: min(60.0, after(*arguments) or 60.0)


def trust_silence() -> None:
    """Take a replica for ready that does not answer, until Kubernetes reports it."""
    whole = replicas._model_finding

    def broken(
        pod: PodObserved, model: InferenceModel, result: ProbeResult | None, before: Any
    ) -> Finding | None:
        if result and result.model_ready.verdict is None and pod.ready:
            return None
        return whole(pod, model, result, before)

    replicas._model_finding = broken


def size_without_bounds() -> None:
    """Give a model the size that its spec names, although its autoscaler has other bounds."""
    Scaling.within = lambda _, size: size


def trust_labels() -> None:
    """Take every pod with the label of a revision for one of its template."""
    plan.template_state = lambda *_: TemplateState.PLANNED


def lead_without_reading() -> None:
    """Write as the new leader before the watch has shown what the former one acted on."""

    async def broken(*_: Any, **__: Any) -> None:
        return None

    process.catch_up = broken


def overlook_runtimes() -> None:
    """Reconcile no model after a change of its InferenceRuntime."""
    RuntimeFleet.runtime_changed = lambda *_: None


def keep_removed_kinds() -> None:
    """Take a kind for installed after its CRD was removed."""
    whole = OptionalKinds._update

    async def broken(self: OptionalKinds, kind: str, *, is_served: bool) -> None:
        if is_served:
            await whole(self, kind, is_served=True)

    OptionalKinds._update = broken


def wait_silently() -> None:
    """Do not report a child that is being deleted."""
    whole = Applier._refuse

    def broken(self: Applier, record: Any, body: Any, error: Any) -> bool:
        return error.reason != BEING_DELETED and whole(self, record, body, error)

    Applier._refuse = broken


BREAKS: Mapping[str, Callable[[], None]] = {
    "status-without-version": write_statuses_without_version,
    "write-without-leading": write_without_leading,
    "no-retry-of-passes": never_retry_passes,
    "no-retry-of-children": never_retry_children,
    "missed-deletions": miss_deletions,
    "lent-models": keep_lent_models,
    "write-while-idle": write_while_idle,
    "write-while-paused": write_while_paused,
    "trusted-silence": trust_silence,
    "size-without-bounds": size_without_bounds,
    "trusted-labels": trust_labels,
    "lead-without-reading": lead_without_reading,
    "overlooked-runtimes": overlook_runtimes,
    "kept-kinds": keep_removed_kinds,
    "silent-waiting": wait_silently,
}


def failing(name: str, seeds: int, processes: int) -> Iterator[Outcome]:
    """Return the seeds that fail only with this break."""
    BREAKS[name]()  # an error in a process of the pool would only start the process again
    with multiprocessing.get_context("spawn").Pool(processes, BREAKS[name]) as pool:
        for outcomes in pool.imap(play_part, parts_of(0, seeds)):
            yield from (each for each in outcomes if each.failures)


def main() -> int:
    """Return 0 if each break makes a seed fail."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--break", dest="names", action="append", choices=BREAKS)
    parser.add_argument("--once", action="store_true", help="stop at the first seed that fails")
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    missed = 0
    for name in options.names or BREAKS:
        caught = 0
        for outcome in failing(name, options.seeds, options.processes):
            caught += 1
            if caught == 1:
                print(f"{name}: {command(outcome.seed)}\n    {outcome.failures[0][:500]}")
            if options.once:
                break
        missed += not caught
        total = "or more" if options.once else f"of {options.seeds}"
        print(f"{name}: {caught} {total} seeds fail", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    if "PYTHONHASHSEED" not in os.environ:  # the order of sets is part of a history
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)
    sys.exit(main())
