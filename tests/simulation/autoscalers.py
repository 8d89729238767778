"""The simulated controller of HorizontalPodAutoscalers: it sets the size of a model by its load.

    load, ready pods --> every 15 s --> spec.replicas of the model, by its scale subresource
                                    --> status of the HorizontalPodAutoscaler

Source: pkg/controller/podautoscaler (horizontal.go, replica_calculator.go): the tolerance of 10 %,
the stabilization of a scale-down, and no scaling of a target with 0 replicas.
"""

import asyncio
import math

from simulation.api_server import ApiServer
from simulation.pods import KUBERNETES, is_ready, key_of, make_condition
from simulation.stored import Key, Object, Write, labels_of, matches

AUTOSCALER = "autoscaler"
"""The field manager that writes sizes."""

PERIOD_SECONDS = 15.0
TOLERANCE = 0.1
WINDOW_SECONDS = 300

HPAS = "horizontalpodautoscalers"


class Autoscalers:
    """Scales models by their load.

    Attributes:
        load: The requests to each model, as the number of replicas that are busy with them; None
            if each model has just the load for its size.
    """

    def __init__(self, api: ApiServer, loop: asyncio.AbstractEventLoop) -> None:
        self.load: float | None = None
        self._api = api
        self._loop = loop
        self._wanted: dict[str, list[tuple[float, int]]] = {}  # by the uid of the autoscaler

    def follow(self, write: Write) -> None:
        """Begin to scale by a new autoscaler."""
        if write.plural == HPAS and write.before is None and write.after is not None:
            uid = write.after["metadata"]["uid"]
            self._wanted[uid] = []
            self._loop.call_later(0.1, self._tick, write.key, uid)

    def waits(self, model: Object) -> bool:
        """Whether the size of a model is not yet the one for its load."""
        for body in self._api.all(HPAS, model["metadata"]["namespace"]):
            if body["spec"]["scaleTargetRef"]["name"] == model["metadata"]["name"]:
                size = model["spec"]["replicas"]
                return bool(size) and self._needed(body, model, size) != size
        return False

    def _tick(self, key: Key, uid: str) -> None:
        body = self._api.get(HPAS, key)
        if body is None or body["metadata"]["uid"] != uid:
            self._wanted.pop(uid, None)
            return
        self._sync(body)
        self._loop.call_later(PERIOD_SECONDS, self._tick, key, uid)

    def _sync(self, body: Object) -> None:
        namespace, name = body["metadata"]["namespace"], body["spec"]["scaleTargetRef"]["name"]
        model = self._api.get("inferencemodels", (namespace, name))
        if model is None:
            self._report(body, {"AbleToScale": "FailedGetScale"}, {})
            return
        size = model["spec"]["replicas"]
        counts = {"currentReplicas": (model.get("status") or {}).get("replicas", 0)}
        if size == 0:
            self._report(body, {"AbleToScale": "", "ScalingActive": "ScalingDisabled"}, counts)
            return
        if not self._ready(model):
            problem = {"AbleToScale": "", "ScalingActive": "FailedGetResourceMetric"}
            self._report(body, problem, counts)
            return
        wanted = self._stable(body, self._needed(body, model, size), size)
        if wanted != size:
            change = lambda model: model["spec"].update(replicas=wanted)  # noqa: E731 -- passed on
            self._api.edit("inferencemodels", key_of(model), change, AUTOSCALER)
        counts["desiredReplicas"] = wanted
        self._report(body, {"AbleToScale": "", "ScalingActive": ""}, counts)

    def _ready(self, model: Object) -> list[Object]:
        """The ready pods of a model, of all its revisions."""
        selector = (model.get("status") or {}).get("selector", "")
        pods = self._api.all("pods", model["metadata"]["namespace"])
        return [pod for pod in pods if is_ready(pod) and matches(selector, labels_of(pod))]

    def _needed(self, body: Object, model: Object, size: int) -> int:
        """The size for the load, within the bounds."""
        ready = len(self._ready(model))
        needed = size
        if self.load is not None and ready and abs(self.load / ready - 1) > TOLERANCE:
            needed = math.ceil(self.load)
        return max(body["spec"]["minReplicas"], min(needed, body["spec"]["maxReplicas"]))

    def _stable(self, body: Object, needed: int, size: int) -> int:
        """Return the size, reduced only if less has been enough for a while."""
        window = body["spec"]["behavior"]["scaleDown"].get(
            "stabilizationWindowSeconds", WINDOW_SECONDS
        )
        now, uid = self._loop.time(), body["metadata"]["uid"]
        recent = [each for each in self._wanted[uid] if each[0] > now - window]
        self._wanted[uid] = [*recent, (now, needed)]
        largest = max(each for _, each in self._wanted[uid])
        bounded = max(body["spec"]["minReplicas"], min(size, body["spec"]["maxReplicas"]))
        return max(needed, min(bounded, largest)) if recent or window else needed

    def _report(self, body: Object, problems: dict[str, str], counts: dict[str, int]) -> None:
        known = {each["type"]: each for each in (body.get("status") or {}).get("conditions") or []}
        for type_, problem in problems.items():
            made = make_condition(type_, not problem, problem or "Ready", self._loop.time())
            if known.get(type_, {}).get("status") != made["status"]:
                known[type_] = made
        status = {**counts, "conditions": list(known.values())}
        self._api.report(HPAS, key_of(body), status, KUBERNETES)
