"""The simulated API server: objects, versions, server-side apply, preconditions, watches.

    request --> ApiServer.handle --> objects, log of events --> watches

It answers immediately; the network adds latency and faults. Only features that the operator relies
on are implemented: no defaults, no schemas, no admission. `test_against_the_real_api_server.py`
compares it with a real kube-apiserver.
"""

import copy
import hashlib
from collections.abc import Callable, Mapping
from functools import lru_cache

import msgspec

from simulation import fields
from simulation.clock import timestamp
from simulation.stored import (
    Answer,
    Event,
    Key,
    Object,
    Refused,
    Stored,
    Write,
    labels_of,
    matches,
)

GENERATIONS = {
    "inferencemodels",
    "inferenceruntimes",
    "deployments",
    "replicasets",
    "networkpolicies",
    "poddisruptionbudgets",
    "httproutes",
    "grpcroutes",
}
"""Kinds whose generation counts the changes of their spec."""

GRACEFUL = {"pods"}
"""Kinds whose objects are first marked as deleted and then removed by a controller."""

CUSTOM = {"inferencemodels", "inferenceruntimes"}

GROUPS = {"/apis/gateway.networking.k8s.io/v1": ("httproutes", "grpcroutes")}
"""The optional kinds by the path of their group."""

UNTRACKED = {
    "inferencemodels", "inferenceruntimes", "pods", "replicasets", "leases", "events",
}  # fmt: skip
"""Kinds whose managed fields are never read."""


class ApiServer:
    """Objects and their history.

    Args:
        clock: Simulated seconds.

    Attributes:
        version: The last resourceVersion.
        compacted: Versions below this one are too old to watch from.
        refusing: Why nothing can be created in namespaces: "Terminating", "NotFound" or "".
        removed: Kinds whose CRD is not installed.
        held: The uids of objects that a finalizer keeps when they are deleted.
        followers: Called with each change, in order; they must not write.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.version = 100
        self.compacted = 0
        self.followers: list[Callable[[Write], None]] = []
        self.uids: set[str] = set()
        self.held: set[str] = set()
        self.removed: set[str] = set()
        self.refusing = ""
        self._clock = clock
        self._objects: dict[str, dict[Key, Stored]] = {}
        self._log: dict[str, list[Event]] = {}
        self._made = 0

    # -------------------------------------------------------------------- requests

    def handle(  # noqa: C901, PLR0911 -- one for each kind of request
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes,
        who: str,
        content_type: str = "application/json",
    ) -> Answer:
        """Handle a request."""
        plural, namespace, name, part = parse(path)
        if not plural:
            return self._discovered(path)
        if plural in self.removed:
            what = "the server could not find the requested resource"
            return Refused(404, "NotFound", what).answer
        try:
            if method == "GET" and name:
                return Answer(200, self._need(plural, (namespace, name)).raw)
            if method == "GET":
                return Answer(200, self.listed(plural, namespace, query))
            document = msgspec.json.decode(body) if body else {}
            if method == "DELETE":
                self.delete(plural, (namespace, name), document.get("preconditions") or {}, who)
                return Answer(200, b"{}")
            if method == "POST":
                if "dryRun" in query:
                    return Answer(200, body)
                return self._answer(self.create(plural, document, who), 201)
            if method == "PUT":
                return self._answer(self._replace(plural, document, who))
            if "json-patch" in content_type:
                return self._answer(self._patch(plural, (namespace, name), document, who))
            if part == "status":
                return self._answer(self._apply_status(plural, document, who))
            manager = query.get("fieldManager", "")
            known = (namespace, name) in self._of(plural)
            return self._answer(self.apply(plural, document, manager, who), 200 if known else 201)
        except Refused as refused:
            return refused.answer

    def remove(self, plural: str, who: str) -> None:
        """Remove the CRD of a kind, with all its objects; open watches end."""
        for key in [*self._of(plural)]:
            self.delete(plural, key, {}, who, now=True)
        self.removed.add(plural)
        self._tell(Write(who, "remove", plural, ("", ""), None, None))

    def _discovered(self, path: str) -> Answer:
        """Return the kinds of a group."""
        found = [each for each in GROUPS.get(path, ()) if each not in self.removed]
        resources = [{"name": each} for each in found]
        return Answer(200 if found else 404, msgspec.json.encode({"resources": resources}))

    def _answer(self, stored: Stored, code: int = 200) -> Answer:
        return Answer(code, stored.raw)

    def get(self, plural: str, key: Key) -> Object | None:
        """Return the object, which must not be changed."""
        found = self._of(plural).get(key)
        return found.body if found else None

    def all(self, plural: str, namespace: str = "") -> list[Object]:
        """Return all objects of a kind, which must not be changed."""
        return [
            each.body
            for (where, _), each in self._of(plural).items()
            if not namespace or where == namespace
        ]

    def listed(self, plural: str, namespace: str, query: Mapping[str, str], at: int = 0) -> bytes:
        """Return a list as JSON, at the current or an earlier version."""
        selector = query.get("labelSelector", "")
        wanted = query.get("fieldSelector", "").removeprefix("metadata.name=")
        found: dict[Key, tuple[Mapping[str, str], bytes]] = {}
        if at:
            for event in self._log.get(plural, ()):
                if event.version > at:
                    break
                found.pop(event.key, None)
                if event.type != "DELETED":
                    found[event.key] = event.labels, event.raw
        else:
            found = {
                key: (labels_of(each.body), each.raw) for key, each in self._of(plural).items()
            }
        items = [
            raw
            for (where, name), (labels, raw) in found.items()
            if (not namespace or where == namespace)
            and (not wanted or name == wanted)
            and matches(selector, labels)
        ]
        version = str(at or self.version).encode()
        head = b'{"kind":"List","metadata":{"resourceVersion":"' + version + b'"},"items":['
        return head + b",".join(items) + b"]}"

    def events(self, plural: str, after: int) -> list[Event]:
        """Return the events of a kind after a version."""
        log = self._log.get(plural, [])
        start = len(log)
        while start and log[start - 1].version > after:
            start -= 1
        return log[start:]

    # -------------------------------------------------------------------- writes

    def create(self, plural: str, body: Object, who: str) -> Stored:
        """Create an object."""
        metadata = body["metadata"]
        key = metadata["namespace"], metadata["name"]
        if key in self._of(plural):
            raise Refused(409, "AlreadyExists", f"{plural} {key[1]!r} already exists", key[1])
        made = {**body, "metadata": self._identity(metadata)}
        if plural in CUSTOM:
            made.pop("status", None)
        self._check_namespace(plural, key)
        tracked = {} if plural in UNTRACKED else fields.fields_of(made)
        managed = {("created", "Update"): frozenset(tracked)} if tracked else {}
        return self._commit(plural, key, made, managed, "create", who)

    def apply(self, plural: str, body: Object, manager: str, who: str) -> Stored:
        """Server-side apply with force."""
        metadata = body["metadata"]
        key = metadata["namespace"], metadata["name"]
        stored = self._of(plural).get(key)
        wanted = fields.fields_of(body)
        me = manager, "Apply"
        if stored is None:
            self._check_namespace(plural, key)
            if metadata.get("uid"):
                raise Refused(409, "Conflict", f"{plural} {key[1]!r}: uid mismatch", key[1])
            made = {**body, "metadata": self._identity(metadata)}
            return self._commit(plural, key, made, {me: frozenset(wanted)}, "apply", who)
        self._check(plural, key, stored, metadata)
        metadata = {k: v for k, v in metadata.items() if k not in {"resourceVersion", "uid"}}
        made = fields.merged(stored.body, {**body, "metadata": metadata})
        others = {who_: set(owned) for who_, owned in stored.managed.items() if who_ != me}
        given_up = stored.managed.get(me, frozenset()) - wanted.keys()
        # Remove whole items first: an item without its key fields cannot be found.
        for path in sorted(given_up, key=lambda path: (path[-1] != ".", path)):
            if not any(path in owned for owned in others.values()):
                made = copy.deepcopy(made)
                fields.remove(made, path)
                fields.prune_empty(made, path)
        live = stored.fields
        taken = {path for path in wanted if live.get(path) != wanted[path]}
        kept = fields.fields_of(made).keys() - taken
        managed = {who_: frozenset(owned & kept) for who_, owned in others.items() if owned & kept}
        managed[me] = frozenset(wanted)
        return self._commit(plural, key, made, managed, "apply", who)

    def edit(
        self,
        plural: str,
        key: Key,
        change: Callable[[Object], None],
        who: str,
        *,
        part: str = "",
    ) -> Stored:
        """Update the object, or its status, as a client other than the operator."""
        stored = self._need(plural, key)
        made = msgspec.json.decode(stored.raw)
        change(made)
        managed = stored.managed
        if not part and plural not in UNTRACKED:
            before, after = stored.fields, fields.fields_of(made)
            changed = {path for path, value in after.items() if before.get(path, fields) != value}
            kept = after.keys() - changed
            managed = {other: owned & kept for other, owned in managed.items()}
            managed[who, "Update"] = managed.get((who, "Update"), frozenset()) | changed
            managed = {other: owned for other, owned in managed.items() if owned}
        return self._commit(plural, key, made, managed, "update", who, part)

    def report(self, plural: str, key: Key, status: Object, who: str) -> None:
        """Replace the status of an object as its controller does, if it has changed."""
        self.edit(plural, key, lambda body: body.update(status=status), who, part="status")

    def delete(
        self,
        plural: str,
        key: Key,
        preconditions: Mapping[str, str],
        who: str,
        *,
        now: bool = False,
        held: bool = False,
    ) -> None:
        """Delete an object, or mark it for deletion if it is held or has a grace period."""
        stored = self._need(plural, key)
        metadata = stored.body["metadata"]
        for name, wanted in preconditions.items():
            if metadata[name] != wanted:
                message = f"Precondition failed: {name}: {wanted} is not {metadata[name]}"
                raise Refused(409, "Conflict", message, key[1])
        held = held or metadata["uid"] in self.held
        if (plural in GRACEFUL or held) and not now:
            if "deletionTimestamp" not in metadata:
                marked = {**metadata, "deletionTimestamp": timestamp(self._clock())}
                made = {**stored.body, "metadata": marked}
                self._commit(plural, key, made, stored.managed, "delete", who)
            return
        self.version += 1
        gone = {**stored.body, "metadata": {**metadata, "resourceVersion": str(self.version)}}
        del self._objects[plural][key]
        self.uids.discard(metadata["uid"])
        self._note(plural, key, "DELETED", gone, msgspec.json.encode(gone), stored.body)
        self._tell(Write(who, "delete", plural, key, stored.body, None))

    def _patch(self, plural: str, key: Key, operations: list[Object], who: str) -> Stored:
        """Apply a JSON patch to the metadata."""
        stored = self._need(plural, key)
        given = {each["path"].removeprefix("/metadata/"): each["value"] for each in operations}
        self._check(plural, key, stored, {"resourceVersion": given.pop("resourceVersion", "")})
        entries = given.pop("managedFields", None)
        if entries is not None:
            managed = {
                (each["manager"], each["operation"]): fields.paths_of(each["fieldsV1"])
                for each in entries
            }
            stored = self._commit(plural, key, stored.body, managed, "patch", who)
        if given:
            return self.edit(plural, key, lambda made: made["metadata"].update(given), who)
        return stored

    def _replace(self, plural: str, body: Object, who: str) -> Stored:
        metadata = body["metadata"]
        key = metadata["namespace"], metadata["name"]
        stored = self._need(plural, key)
        self._check(plural, key, stored, metadata)
        made = {**body, "metadata": {**stored.body["metadata"], **metadata}}
        return self._commit(plural, key, made, {}, "replace", who)

    def _apply_status(self, plural: str, body: Object, who: str) -> Stored:
        metadata = body["metadata"]
        key = metadata.get("namespace", ""), metadata["name"]
        stored = self._need(plural, key)
        # For the status of a custom resource the API server only compares the resourceVersion.
        compared = {k: v for k, v in metadata.items() if k != "uid" or plural not in CUSTOM}
        self._check(plural, key, stored, compared)
        status = body["status"]
        if plural not in CUSTOM:
            status = fields.merged(stored.body.get("status") or {}, status)
        made = {**stored.body, "status": status}
        return self._commit(plural, key, made, stored.managed, "apply", who, "status")

    def _check_namespace(self, plural: str, key: Key) -> None:
        """Refuse a creation in a namespace that ends or is gone; leases are in another one."""
        if not self.refusing or not key[0] or plural == "leases":
            return
        if self.refusing == "NotFound":
            raise Refused(404, "NotFound", f'namespaces "{key[0]}" not found', key[0])
        why = f"unable to create new content in namespace {key[0]} because it is being terminated"
        raise Refused(403, "Forbidden", f'{plural} "{key[1]}" is forbidden: {why}', key[1])

    def _check(self, plural: str, key: Key, stored: Stored, metadata: Object) -> None:
        known = stored.body["metadata"]
        version = metadata.get("resourceVersion") or known["resourceVersion"]
        if (
            version == known["resourceVersion"]
            and metadata.get("uid", known["uid"]) != known["uid"]
        ):
            raise Refused(422, "Invalid", "metadata.uid: field is immutable", key[1])
        if version != known["resourceVersion"]:
            message = f"Operation cannot be fulfilled on {plural} {key[1]!r}: it was modified"
            raise Refused(409, "Conflict", message, key[1])

    def _identity(self, metadata: Object) -> Object:
        self._made += 1
        digest = hashlib.md5(str(self._made).encode(), usedforsecurity=False).hexdigest()
        uid = "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:]))
        return {
            **{k: v for k, v in metadata.items() if k != "resourceVersion"},
            "uid": uid,
            "generation": 1,
            "creationTimestamp": timestamp(self._clock()),
        }

    def _commit(  # noqa: PLR0917 -- who does what to which object
        self,
        plural: str,
        key: Key,
        made: Object,
        managed: dict[tuple[str, str], fields.Fields],
        verb: str,
        who: str,
        part: str = "",
    ) -> Stored:
        """Store an object if it has changed."""
        _check_unique(plural, key[1], made)
        known = self._of(plural).get(key)
        metadata = {k: v for k, v in made["metadata"].items() if k != "managedFields"}
        if known:
            before = {k: v for k, v in known.body["metadata"].items() if k != "managedFields"}
            metadata |= {"resourceVersion": before["resourceVersion"], "uid": before["uid"]}
            metadata["generation"] = before["generation"]
            if plural in GENERATIONS and made.get("spec") != known.body.get("spec"):
                metadata["generation"] += 1
            same = {**made, "metadata": metadata} == {**known.body, "metadata": before}
            if same and managed == known.managed:
                return known
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        if managed:
            metadata["managedFields"] = [
                {
                    "manager": manager,
                    "operation": operation,
                    "fieldsType": "FieldsV1",
                    "fieldsV1": fields.fields_v1(owned),
                }
                for (manager, operation), owned in managed.items()
            ]
        body = {**made, "metadata": metadata}
        raw = msgspec.json.encode(body)
        stored = self._objects.setdefault(plural, {})[key] = Stored(body, raw, managed)
        self.uids.add(metadata["uid"])
        before_body = known.body if known else None
        type_ = "MODIFIED" if known else "ADDED"
        self._note(plural, key, type_, body, raw, before_body)
        self._tell(Write(who, verb, plural, key, before_body, body, part))
        return stored

    def _note(
        self, plural: str, key: Key, type_: str, body: Object, raw: bytes, before: Object | None
    ) -> None:
        former_labels = None if before is None else labels_of(before)
        event = Event(self.version, type_, key, raw, labels_of(body), former_labels, self._clock())
        self._log.setdefault(plural, []).append(event)

    def _tell(self, write: Write) -> None:
        for follow in self.followers:
            follow(write)

    def _of(self, plural: str) -> dict[Key, Stored]:
        return self._objects.get(plural, {})

    def _need(self, plural: str, key: Key) -> Stored:
        stored = self._of(plural).get(key)
        if stored is None:
            raise Refused(404, "NotFound", f"{plural} {key[1]!r} not found", key[1])
        return stored


@lru_cache(maxsize=4096)
def parse(path: str) -> tuple[str, str, str, str]:
    """Parse a path into plural, namespace, name and subresource."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    plural, name, part = [*rest, "", "", ""][:3]
    return plural, namespace, name, part


def _check_unique(plural: str, name: str, made: Object) -> None:
    """Reject lists with duplicate names, as the API server does."""
    spec = made.get("spec") or {}
    lists = {"spec.ports": spec.get("ports")} if plural == "services" else {}
    if plural == "deployments":
        lists["spec.template.spec.containers"] = spec["template"]["spec"]["containers"]
    for path, items in lists.items():
        names = [item.get("name", "") for item in items or []]
        for number, each in enumerate(names):
            if each in names[:number]:
                message = f'{path}[{number}].name: Duplicate value: "{each}"'
                raise Refused(422, "Invalid", message, name)
