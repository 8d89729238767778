"""Properties of every history, checked at each write and at its end."""

import random
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from simulation.controllers import COLLECTED
from simulation.pods import is_over, is_ready, key_of
from simulation.replica_sets import is_active
from simulation.reversals import Reversals
from simulation.routes import PLURALS, kinds_of
from simulation.runtimes import runtime_of, write_runtime
from simulation.scaling import Sizes, unscaled
from simulation.servers import SERVING
from simulation.stored import Object, Write, owners_of
from simulation.world import NAMESPACE, USER, World
from support.testbed.api import KINDS
from support.testbed.end_state import differences, end_state

MODEL_LABEL = "moorage.dev/model"
REVISION_LABEL = "moorage.dev/revision"
OURS = {"served-by": "ours"}
"""The labels of a model that the simulated operators serve."""

LENT_SECONDS = 5.0
"""A write may follow for so long after the model moved to another installation, or so much longer
than `FAULT_SECONDS` if an operator may know the cluster as it was before.
"""

MOMENT_SECONDS = 1.0
"""The largest age of the observations of a status while nothing fails."""

FAULT_SECONDS = 40.0
"""The same while events are delayed, requests are late and processes are disconnected."""


LOST_SECONDS = 40.0
"""How long a status may claim that a replica on a lost node serves.

The operator polls at the latest after 36 s: `health.pollIntervalSeconds` is 30 by default, with a
jitter of 20 %. It waits for an answer for 2 s, and one missing answer is enough in this suite.
"""

UNREADY_SECONDS = 52.0
"""By then Kubernetes reports a pod on a lost node as not ready, and the operator has seen it."""

EDITED_SECONDS = 5.0
"""How long a status may overlook that a pod has an edited template while no events are late."""

REACTION_SECONDS = 40.0
"""How long an operator may write after a change by others: a slow model loads for 25 s."""

FRESH_SECONDS = 60.0
"""A fresh model is up to date by then."""

CALM_SECONDS = 5.0
"""Between two looks at a fresh model, and from when it is up to date until nothing follows."""


class Watchdog:
    """Checks every write in a world.

    Attributes:
        failures: Violated properties.
        writes: The number of writes of operators, without leases.
        unprompted: The number of those that no recent change by others explains.
        last_write: The time of the last write.
        patience: The maximum age of the observations in a status.
    """

    def __init__(self, world: World) -> None:
        self.failures: list[str] = []
        self.writes = 0
        self.unprompted = 0
        self.last_write = 0.0
        self.patience = MOMENT_SECONDS
        self._world = world
        self._changed = 0.0  # the time of the last change by others
        self._served: dict[str, float] = {}  # by the uid of the model
        self._owners: dict[str, str] = {}
        self._held: set[str] = set()  # uids of models whose pause the operator has reported
        self._served_revisions: dict[str, float] = {}
        self._edited: set[str] = set()  # revisions, while an operator may not see the edit
        self._images: dict[str, str] = {}  # by revision
        self._sizes = Sizes(world)
        self._reversals = Reversals(world)
        self._touched: dict[str, float] = {}  # when others last changed a Service, by its name
        self._made: dict[str, float] = {}  # when each pod was created, by its uid
        self._lent: dict[str, float] = {}  # since when, by the uid of the model
        self._returned: dict[str, float] = {}  # when, by the uid of the model
        world.api.followers.append(self.follow)

    def follow(self, write: Write) -> None:
        """Check one change."""
        self._follow_child(write)
        if write.plural == "inferencemodels":
            self._follow_pause(write)
            self._follow_lending(write)
        self._fail_for(self._sizes.follow(write))
        self._fail_for(self._reversals.follow(write))
        now = self._world.loop.time()
        if not write.who.startswith("operator"):
            self._changed = now
            return
        if write.plural in {"leases", "events"}:
            return
        self.writes += 1
        self.unprompted += now - self._changed > REACTION_SECONDS
        self.last_write = now
        self._check_leader(write)
        self._check_pause(write)
        self._check_lending(write)
        if write.plural in PLURALS.values() and write.after is not None:
            self._check_route(write.after)
        if write.plural == "inferencemodels" and write.after is not None:
            self._check_status(write.after)
            self._check_revisions(write.after)
            self._check_templates(write.after)
            self._check_service(write.after)

    def _follow_child(self, write: Write) -> None:
        if write.plural in {"deployments", "replicasets"} and write.after is not None:
            for owner in owners_of(write.after):
                self._owners[write.after["metadata"]["uid"]] = owner
        if write.plural == "pods":
            self._follow_pod(write)
        if write.plural == "deployments" and write.after is not None:
            self._follow_template(write, write.after["spec"]["template"])
        if write.plural == "services" and not write.who.startswith("operator"):
            self._touched[write.key[1]] = self._world.loop.time()

    def note_serving(self) -> None:
        """Note which replicas serve; call before a change that no write shows."""
        for pod in self._world.api.all("pods"):
            self._note_serving(pod)

    def look(self) -> None:
        """Check what the statuses claim about replicas on lost nodes; nothing else may fail.

        The operator may not ask a replica of an earlier revision, and then believes Kubernetes.
        """
        now = self._world.loop.time()
        lost = self._world.servers.lost
        since = {
            pod["metadata"]["name"]: lost.get(pod["status"].get("podIP", ""), now)
            for pod in self._world.nodes.pods
        }
        for model in self._world.api.all("inferencemodels") if since else ():
            self._check_claim(model)
            status = model.get("status") or {}
            current = (status.get("revisions") or {}).get("current")
            for each in status.get("replicaStatuses") or []:
                ago = now - since.get(each["pod"], now)
                limit = LOST_SECONDS if each["revision"] == current else UNREADY_SECONDS
                if ago > limit and each["ready"] and each["modelReady"]:
                    pod = each["pod"]
                    self._fail(f"{pod} is reported to serve, but was lost {ago:.1f} s ago")

    def serves(self, model: Object) -> bool:
        """Whether a replica serves; pods of a deleted model of the same name do not count."""
        uid = model["metadata"]["uid"]
        return any(
            self._serves(pod) for pod in self._world.api.all("pods") if self._owner_of(pod) == uid
        )

    def _follow_pod(self, write: Write) -> None:
        if write.before is not None:
            self._note_serving(write.before)
        elif write.after is not None:
            self._made[write.after["metadata"]["uid"]] = self._world.loop.time()

    def _note_serving(self, pod: Object) -> None:
        if self._serves(pod):
            self._served[self._owner_of(pod)] = self._world.loop.time()
            self._served_revisions[revision_of(pod)] = self._world.loop.time()

    def _owner_of(self, pod: Object) -> str:
        """Return the uid of the model that owns the pod's Deployment, even after its deletion."""
        return self._owners.get(self._owners.get(next(owners_of(pod), ""), ""), "")

    def _serves(self, pod: Object) -> bool:
        address = (pod.get("status") or {}).get("podIP", "")
        return is_ready(pod) and self._world.servers.serves(address)

    def _check_leader(self, write: Write) -> None:
        if self._world.leaders == 1:
            return
        leases = self._world.api.all("leases")
        holder = leases[0]["spec"].get("holderIdentity") if leases else ""
        if holder != write.who:
            self._fail(f"{write.who} writes {write.plural} {write.key[1]} while {holder!r} leads")

    def _follow_template(self, write: Write, template: Object) -> None:
        """Take note of the image of a revision, and of edits that may be seen late."""
        revision = revision_of(template)
        if write.who.startswith("operator") and write.verb == "apply":
            self._images[revision] = template["spec"]["containers"][0]["image"]
        elif write.who == USER and self._world.is_disturbed:
            self._edited.add(revision)

    def _follow_pause(self, write: Write) -> None:
        """Take note of a model that is paused according to its status, until it is resumed."""
        model = write.after or write.before or {}
        uid, status = model["metadata"]["uid"], model.get("status") or {}
        if write.after is None or not model["spec"].get("paused"):
            self._held.discard(uid)
        elif status.get("observedGeneration") == model["metadata"]["generation"]:
            self._held.add(uid)

    def _check_pause(self, write: Write) -> None:
        """No child of a paused model is written.

        A process may have older events than the one that reported the pause: after a start with
        an old list, or if another one leads.
        """
        if self._world.leaders > 1 or self._world.weather.old_lists:
            return
        body = write.after or write.before or {}
        is_child = write.plural in COLLECTED and write.plural != "pods"
        if is_child and self._held.intersection(owners_of(body)):
            self._fail(f"{write.who} {write.verb} {write.plural} {write.key[1]} of a paused model")

    def _follow_lending(self, write: Write) -> None:
        """Take note of a model that another installation serves, until it returns."""
        model = write.after or write.before or {}
        uid, labels = model["metadata"]["uid"], model["metadata"].get("labels") or {}
        if write.after is None or OURS.items() <= labels.items():
            if self._lent.pop(uid, None) is not None:
                self._returned[uid] = self._world.loop.time()
        else:
            self._lent.setdefault(uid, self._world.loop.time())

    def _check_lending(self, write: Write) -> None:
        """A model of another installation is left alone, once its move is known."""
        if not self._world.selector or self._world.weather.old_lists:
            return
        limit = LENT_SECONDS + (FAULT_SECONDS if self._world.is_disturbed else 0.0)
        body = write.after or write.before or {}
        for uid in {body["metadata"]["uid"], *owners_of(body)} & self._lent.keys():
            ago = self._world.loop.time() - self._lent[uid]
            if ago > limit:
                self._fail(
                    f"{write.who} {write.verb} {write.plural} {write.key[1]} of a model that "
                    f"another installation has served for {ago:.1f} s"
                )

    def _check_status(self, model: Object) -> None:
        name, status = model["metadata"]["name"], model["status"]
        for each in status.get("conditions") or []:
            if each["observedGeneration"] > model["metadata"]["generation"]:
                self._fail(f"{name}: {each['type']} reports a generation that does not exist yet")
            is_early = each["lastTransitionTime"] < model["metadata"]["creationTimestamp"]
            if is_early and not self._world.has_wrong_clocks:
                self._fail(f"{name}: {each['type']} has been so since before the model was made")
        self._check_claim(model, self.patience)

    def _check_claim(self, model: Object, patience: float = LOST_SECONDS) -> None:
        """Ready is claimed only while a replica serves, or did so a moment ago.

        An operator that gets old lists may take replicas of an earlier revision, which it does not
        ask, for present ones.
        """
        status, reason = verdicts(model).get("Ready", ("", ""))
        if reason == "ServingPreviousRevision" and self._world.weather.old_lists:
            return
        if status == "True" and not self.serves(model):
            ago = self._world.loop.time() - self._served.get(model["metadata"]["uid"], -1e9)
            if ago > patience:
                name = model["metadata"]["name"]
                self._fail(f"{name}: Ready=True, but no replica has served for {ago:.1f} s")

    def _check_revisions(self, model: Object) -> None:
        """Only a revision that can serve is reported as up to date or as the last good one.

        While events are held back, the pods of a Deployment that was edited by hand can arrive
        long before the edit.
        """
        name, status = model["metadata"]["name"], model["status"]
        current, good = (status["revisions"].get(each, "") for each in ("current", "lastGood"))
        image = model["spec"]["runtime"]["image"]
        is_up_to_date = verdicts(model).get("UpToDate", ("", ""))[0] == "True"
        is_described = status.get("observedGeneration") == model["metadata"]["generation"]
        does_serve = is_served(model["spec"]) or model["spec"].get("suspend")
        if is_up_to_date and is_described and not does_serve and current not in self._edited:
            self._fail(f"{name}: UpToDate=True, but {image} does not serve")
        image = self._images.get(good, SERVING[0])
        if image not in SERVING and good not in self._edited:
            self._fail(f"{name}: revision {good} is the last good one, but {image} does not serve")

    def _check_templates(self, model: Object) -> None:
        """Up to date are only replicas with the template of the spec, not with an edited one."""
        status, now = model["status"], self._world.loop.time()
        current, uid = status["revisions"].get("current", ""), model["metadata"]["uid"]
        image = self._images.get(current)
        is_up_to_date = verdicts(model).get("UpToDate", ("", ""))[0] == "True"
        if not is_up_to_date or image is None or current in self._edited:
            return
        is_late = self._world.is_disturbed or self._world.weather.old_lists
        limit = self.patience if is_late else EDITED_SECONDS
        for pod in self._world.api.all("pods"):
            found = pod["spec"]["containers"][0]["image"]
            # Meanwhile another installation was responsible for it.
            since = max(self._made.get(pod["metadata"]["uid"], now), self._returned.get(uid, 0.0))
            ago = now - since
            is_other = revision_of(pod) == current and found != image
            if is_other and is_active(pod) and ago > limit and self._owner_of(pod) == uid:
                name = pod["metadata"]["name"]
                self._fail(f"UpToDate=True, but {name} has run {found} for {ago:.1f} s")

    def _check_service(self, model: Object) -> None:
        """Up to date is only a revision that the Service selects, unless the model has no pods.

        An operator that gets old lists may take an earlier Service for the present one.
        """
        name, now = model["metadata"]["name"], self._world.loop.time()
        service = self._world.api.get("services", (NAMESPACE, name))
        is_up_to_date = verdicts(model).get("UpToDate", ("", ""))[0] == "True"
        ago = now - self._touched.get(name, -1e9)
        if service is None or not is_up_to_date or ago <= self.patience:
            return
        if model["spec"].get("suspend") or not model["status"].get("replicas"):
            return
        selected = service["spec"]["selector"].get(REVISION_LABEL, "")
        current = model["status"]["revisions"].get("current", "")
        if selected not in ("", current) and not self._world.weather.old_lists:
            self._fail(f"{name}: UpToDate=True, but the Service selects {selected}")

    def _check_route(self, route: Object) -> None:
        """While the last good revision serves, no request goes to one that does not.

        An operator that gets old lists acts on an earlier spec.
        """
        if self._world.weather.old_lists:
            return
        name, owners = route["metadata"]["name"], set(owners_of(route))
        model = self._world.api.get("inferencemodels", (NAMESPACE, name)) or {}
        good = ((model.get("status") or {}).get("revisions") or {}).get("lastGood", "")
        serving = {
            revision_of(pod)
            for pod in self._world.api.all("pods")
            if self._owner_of(pod) in owners and self._serves(pod)
        }
        shares = {
            each["name"]: each["weight"]
            for rule in route["spec"]["rules"]
            for each in rule["backendRefs"]
        }
        for service, weight in shares.items():
            body = self._world.api.get("services", (NAMESPACE, service)) or {}
            revision = (body.get("spec") or {}).get("selector", {}).get(REVISION_LABEL, "")
            ago = self._world.loop.time() - self._served_revisions.get(revision, -1e9)
            is_lost = revision and revision not in serving and ago > self.patience
            if is_lost and good in serving:
                self._fail(
                    f"{name}: {weight} percent of the requests go to {revision}, which has not "
                    f"served for {ago:.1f} s, while {good} serves"
                )

    def _fail_for(self, reasons: Iterator[str]) -> None:
        for each in reasons:
            self._fail(each)

    def _fail(self, text: str) -> None:
        self._world.note(f"FAILURE {text}")
        self.failures.append(text)


class _Looks:
    """The simulated API server with the interface that `end_state` uses."""

    def __init__(self, world: World) -> None:
        self._api = world.api

    async def list(self, kind: str, namespace: str) -> list[Object]:
        """All objects of a kind, without pods that were evicted."""
        found = self._api.all(KINDS[kind][1], namespace)
        return [each for each in found if kind != "Pod" or not is_over(each)]


def state(world: World) -> Object:
    """Return the end state of the history."""
    return world.loop.run_until_complete(end_state(_Looks(world), NAMESPACE, PLURALS))  # type: ignore[arg-type]


def verdicts(model: Object) -> dict[str, tuple[str, str]]:
    """Status and reason of each condition."""
    return {
        each["type"]: (each["status"], each["reason"])
        for each in (model.get("status") or {}).get("conditions") or []
    }


def is_served(spec: Object) -> bool:
    """Whether a model with this spec ends up Ready and up to date."""
    return spec["runtime"]["image"] in SERVING and not spec.get("suspend")


def unsettled(world: World, watchdog: Watchdog, model: Object) -> Iterator[str]:
    """Return why a model has not reached its end state."""
    name, generation = model["metadata"]["name"], model["metadata"]["generation"]
    status, found = model.get("status") or {}, verdicts(model)
    if status.get("observedGeneration") != generation:
        yield f"{name}: observedGeneration {status.get('observedGeneration')} of {generation}"
    for each in status.get("conditions") or []:
        if each["observedGeneration"] != generation:
            yield f"{name}: {each['type']} reports generation {each['observedGeneration']}"
    ready, up_to_date = (found.get(each, ("", ""))[0] for each in ("Ready", "UpToDate"))
    if ready == "True" and not watchdog.serves(model):
        yield f"{name}: Ready=True, but no replica serves"
    if is_served(model["spec"]):
        if (ready, up_to_date) != ("True", "True"):
            yield f"{name}: Ready={ready} UpToDate={up_to_date}, but the spec serves"
        scaling = found.get("ScalingActive")
        if scaling and scaling[0] != "True":
            yield f"{name}: ScalingActive={scaling[0]}/{scaling[1]}, but the autoscaler works"
        yield from unscaled(world, model)
    elif up_to_date == "True" and not model["spec"].get("suspend"):
        yield f"{name}: UpToDate=True, but the spec does not serve"
    pods = [pod for pod in world.api.all("pods") if _model_of(pod) == name and not is_over(pod)]
    pods = [pod for pod in pods if not world.nodes.is_lost(pod)]
    if model["spec"].get("suspend") and pods:
        yield f"{name}: is suspended and has {len(pods)} pods"


def strange(world: World) -> Iterator[str]:
    """Return the differences from the end state of a fresh model with the same spec."""
    models = world.api.all("inferencemodels")
    for model in models:
        if not is_served(model["spec"]) or _is_on_the_other_side(world, model):
            continue
        spec = msgspec.json.encode(model["spec"], order="sorted")
        runtime = msgspec.json.encode(runtime_of(world), order="sorted")
        expected = fresh_state(model["metadata"]["name"], spec, runtime)
        yield from differences(msgspec.json.decode(expected), state(world))


def _is_on_the_other_side(world: World, model: Object) -> bool:
    """Whether the Deployment has another name than a fresh model's.

    A BlueGreen rollout leaves it so, and a later change of the strategy moves no pods.
    """
    return world.api.get("deployments", key_of(model)) is None


@lru_cache(maxsize=4096)
def fresh_state(name: str, spec: bytes, runtime: bytes = b"null") -> bytes:
    """Return the end state of a fresh model, as JSON."""
    before = random.getstate()
    wanted, shared = msgspec.json.decode(spec), msgspec.json.decode(runtime)
    world = World("fresh", has_runtimes=shared is not None, routes=kinds_of(wanted))
    try:
        watchdog = Watchdog(world)
        if shared is not None:
            write_runtime(world, shared)
        write_model(world, name, wanted)
        wrong = [""]
        while wrong and world.loop.time() < FRESH_SECONDS:
            world.run(CALM_SECONDS)
            (model,) = world.api.all("inferencemodels")
            wrong = list(unsettled(world, watchdog, model))
        world.run(CALM_SECONDS)
        if wrong:
            raise RuntimeError(f"a fresh model does not serve: {wrong} {spec!r}")
        return msgspec.json.encode(state(world))
    finally:
        world.close()
        random.setstate(before)


def write_model(world: World, name: str, spec: Object) -> None:
    """Create a model, or change its spec."""
    body: dict[str, Any] = {
        "apiVersion": "moorage.dev/v1alpha1",
        "kind": "InferenceModel",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": dict(OURS)},
        "spec": spec,
    }
    if world.api.get("inferencemodels", (NAMESPACE, name)) is None:
        world.api.create("inferencemodels", body, USER)
    else:
        world.api.edit(
            "inferencemodels", (NAMESPACE, name), lambda model: model.update(spec=spec), USER
        )


def revision_of(pod: Object) -> str:
    """The label of a pod, or of a pod template, with its revision."""
    return str((pod["metadata"].get("labels") or {}).get(REVISION_LABEL, ""))


def left_behind(world: World) -> list[str]:
    """Return remaining objects of deleted models."""
    return [
        f"{plural} {body['metadata']['name']}"
        for plural in COLLECTED
        for body in world.api.all(plural)
    ]


def _model_of(body: Object) -> str:
    return str((body["metadata"].get("labels") or {}).get(MODEL_LABEL, ""))
