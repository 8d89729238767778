"""A thin async client of the Kubernetes API: get, list, watch, apply, create, delete.

All reads and writes of the cluster use this client. It implements HTTP and the conventions of the
API, without retries, caches or decisions. Every failure is one of `errors`. Every finished request
is reported to an observer, for metrics.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec

from . import auth, errors
from .bodies import Change, Page, decoded, lines, read_change, read_object, read_page
from .kinds import INFERENCE_MODELS, LEASES, Kind
from .trust import Trust

CONNECTIONS = 128
"""Enough for a few requests at a time. The operator sets how many its writes need."""

PAGE = 250
"""The number of objects in a list page: about 2 MiB of JSON at a time."""

REQUEST_TIMEOUT_SECONDS = 30.0
"""The timeout of all requests except watches. The API server itself gives up after 60 s."""

WATCH_GRACE_SECONDS = 15.0
"""The API server ends a watch after the requested time. If it is this much late, or does not
answer the request within this time, the connection is dead."""

LEADING_LOOK_SECONDS = 1.0
"""A write in flight is cancelled at most this long after leadership was lost."""

_OBJECT_VERBS = frozenset({"get", "create", "patch", "update"})
"""Requests that are answered with a stored object."""

_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


@dataclass(frozen=True, slots=True)
class Call:
    """A finished request with its status code (0: no answer) and duration."""

    verb: str
    resource: str
    code: int
    seconds: float


class KubeClient:
    """The API server as an async context.

    Args:
        access: Its address and the credentials.
        observe: Called with each finished request.
        connections: The maximum number of connections, apart from those of watches and leases.
        clock: Returns monotonic seconds.

    Attributes:
        write_seconds: Returns for how many seconds this process may still write. Called before and
            during each write except those of the lease: at 0, the write is cancelled with
            NotLeading.
    """

    def __init__(
        self,
        access: auth.Access,
        *,
        observe: Callable[[Call], None] = lambda _: None,
        connections: int = CONNECTIONS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.write_seconds: Callable[[], float] = lambda: math.inf
        self._server = access.server
        self._trust = Trust(access)
        self._token = auth.Token(access, clock=clock)
        self._observe = observe
        self._connections = connections
        self._clock = clock
        self._open: aiohttp.ClientSession | None = None
        self._open_watches: aiohttp.ClientSession | None = None
        self._open_leases: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._open = self._session(limit=self._connections)
        # Each watch holds a connection permanently, and there is one per kind and namespace. They
        # would exhaust a pool shared with other requests.
        self._open_watches = self._session(limit=0)
        # A leader ends if its lease waits for slow requests.
        self._open_leases = self._session(limit=1)
        return self

    def _session(self, *, limit: int) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=limit, ssl=self._trust.context or True)
        return aiohttp.ClientSession(connector=connector, trust_env=False)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for session in (self._open, self._open_watches, self._open_leases):
            if session is not None:
                await session.close()
        self._open = self._open_watches = self._open_leases = None

    async def serves(self, kind: Kind) -> bool:
        """Whether the API server serves the kind (its CRD is installed and established)."""
        return kind.plural in await self.plurals(kind)

    async def plurals(self, kind: Kind) -> frozenset[str]:
        """Return the plurals of the kinds that the API server serves in the kind's group."""
        try:
            found = await self._call("discover", kind, f"/apis/{kind.group}/{kind.version}")
        except errors.NotFound:
            return frozenset()
        return frozenset(entry["name"] for entry in found.get("resources", []) if "name" in entry)

    async def server_version(self) -> dict[str, Any]:
        """Return the version of the API server, {} if it does not report it."""
        try:
            return await self._call("discover", INFERENCE_MODELS, "/version")
        except (errors.Forbidden, errors.NotFound):
            return {}

    async def get(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        metadata_only: bool = False,
        timeout_seconds: float | None = None,
    ) -> dict[str, Any]:
        """Get an object, or only its metadata."""
        headers = {"Accept": _METADATA} if metadata_only else {}
        path = kind.path(namespace, name)
        return await self._call(
            "get", kind, path, headers=headers, timeout_seconds=timeout_seconds
        )

    async def page(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        name: str = "",
        selector: str = "",
        continue_: str = "",
        metadata_only: bool = False,
    ) -> Page:
        """Get a page of a list, which may be limited to one name.

        Raises:
            Gone: The continue token has expired; list again.
        """
        query = {"limit": str(PAGE)}
        query |= {"fieldSelector": f"metadata.name={name}"} if name else {}
        query |= {"labelSelector": selector} if selector else {}
        query |= {"continue": continue_} if continue_ else {}
        headers = {"Accept": _METADATA_LIST} if metadata_only else {}
        answer = await self._request(
            "list", kind, kind.path(namespace), query=query, headers=headers
        )
        return read_page(answer)

    async def version(self, kind: Kind, namespace: str = "") -> str:
        """Return the current resourceVersion of a collection."""
        answer = await self._request(
            "list",
            kind,
            kind.path(namespace),
            query={"limit": "1"},
            headers={"Accept": _METADATA_LIST},
            timeout_seconds=WATCH_GRACE_SECONDS,
        )
        return read_page(answer).resource_version

    async def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        selector: str = "",
        resource_version: str,
        seconds: int,
        began: Callable[[], None] = lambda: None,
    ) -> AsyncIterator[Change]:
        """Yield changes since a resourceVersion until the server ends the watch.

        Args:
            kind: The kind to watch.
            namespace: The namespace, "" for all.
            selector: A label selector, "" for all objects.
            resource_version: The version after which to start.
            seconds: The requested duration of the watch.
            began: Called when the server has accepted the watch.

        Raises:
            Gone: The resourceVersion is too old; list again.
            Unreachable: The connection broke, or the server did not end the watch in time.
        """
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(seconds),
        }
        query |= {"labelSelector": selector} if selector else {}
        started = self._clock()
        code = 0
        try:
            request = self._watches.get(
                self._server + kind.path(namespace),
                params=query,
                headers=self._headers({}),
                timeout=aiohttp.ClientTimeout(total=seconds + WATCH_GRACE_SECONDS),
            )
            async with asyncio.timeout(WATCH_GRACE_SECONDS):
                opened = await request
            async with opened as answer:
                code = answer.status
                await self._raise_for(answer)
                began()
                async for line in lines(answer.content.iter_any()):
                    yield read_change(line)
        except (aiohttp.ClientError, OSError) as error:
            self._trust.review(error)
            raise errors.Unreachable(f"watch {kind.rbac_name}: {_said(error)}") from error
        finally:
            self._observe(Call("watch", kind.rbac_name, code, self._clock() - started))

    async def apply(
        self, kind: Kind, body: Mapping[str, Any], *, field_manager: str
    ) -> dict[str, Any]:
        """Apply an object and return it; takes over fields of other managers.

        Raises:
            Conflict: `metadata.uid` or `metadata.resourceVersion` is given and differs from the
                object's. For the status of a custom resource, only the latter is checked: the API
                server accepts the uid of another object.
            Invalid, Forbidden: The API server refuses the object.
            NotLeading: This process is not the leader.
        """
        metadata = body["metadata"]
        return await self._write(
            "patch",
            kind,
            kind.path(metadata.get("namespace", ""), metadata["name"]),
            method="PATCH",
            # Apply rejects unknown fields anyway; the default, Warn, parses the body a second
            # time.
            query={"fieldManager": field_manager, "force": "true", "fieldValidation": "Ignore"},
            # JSON is valid YAML, and all versions accept this content type for apply.
            headers={"Content-Type": "application/apply-patch+yaml"},
            body=body,
        )

    async def patch(
        self, kind: Kind, namespace: str, name: str, operations: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Send a JSON patch and return the object.

        Raises:
            Conflict: The patch has a resourceVersion that is outdated.
            NotLeading: This process is not the leader.
        """
        headers = {"Content-Type": "application/json-patch+json"}
        path = kind.path(namespace, name)
        return await self._write(
            "patch", kind, path, method="PATCH", headers=headers, body=operations
        )

    async def create(self, kind: Kind, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object and return it.

        Raises:
            Conflict: An object with this name already exists.
            NotLeading: This process is not the leader.
        """
        headers = {"Content-Type": "application/json"}
        path = kind.path(body["metadata"]["namespace"])
        return await self._write("create", kind, path, method="POST", headers=headers, body=body)

    async def create_lease(
        self, kind: Kind, body: Mapping[str, Any], *, timeout_seconds: float
    ) -> dict[str, Any]:
        """Create a lease and return it; not gated, because it acquires leadership.

        Raises:
            Conflict: An object with this name already exists.
        """
        headers = {"Content-Type": "application/json"}
        path = kind.path(body["metadata"]["namespace"])
        return await self._call(
            "create",
            kind,
            path,
            method="POST",
            headers=headers,
            body=body,
            timeout_seconds=timeout_seconds,
        )

    async def try_out(self, kind: Kind, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object as a dry run and return it; not gated, because nothing is written.

        Raises:
            Invalid, Forbidden: The API server would refuse the object.
        """
        headers = {"Content-Type": "application/json"}
        path = kind.path(body["metadata"]["namespace"])
        query = {"dryRun": "All"}
        return await self._call(
            "dry-run", kind, path, method="POST", query=query, headers=headers, body=body
        )

    async def replace_lease(
        self, kind: Kind, body: Mapping[str, Any], *, timeout_seconds: float
    ) -> dict[str, Any]:
        """Replace a lease and return it; not gated, because it keeps leadership.

        Raises:
            Conflict: The given `metadata.resourceVersion` is outdated.
        """
        headers = {"Content-Type": "application/json"}
        metadata = body["metadata"]
        path = kind.path(metadata["namespace"], metadata["name"])
        return await self._call(
            "update",
            kind,
            path,
            method="PUT",
            headers=headers,
            body=body,
            timeout_seconds=timeout_seconds,
        )

    async def delete(
        self, kind: Kind, namespace: str, name: str, *, uid: str, resource_version: str
    ) -> None:
        """Delete a known version of an object, and afterwards its dependents.

        Raises:
            Conflict: It is another object, or has changed.
            NotFound: It no longer exists.
            NotLeading: This process is not the leader.
        """
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid, "resourceVersion": resource_version},
            "propagationPolicy": "Background",
        }
        headers = {"Content-Type": "application/json"}
        path = kind.path(namespace, name)
        await self._write("delete", kind, path, method="DELETE", headers=headers, body=options)

    async def _write(self, verb: str, kind: Kind, path: str, **request: Any) -> dict[str, Any]:
        """Send a request that is only allowed while this process is the leader."""
        left = self.write_seconds()
        if left <= 0:
            raise errors.NotLeading("not the leader: write refused")
        if left == math.inf:
            return await self._call(verb, kind, path, **request)
        loop = asyncio.get_running_loop()

        def look() -> None:
            nonlocal timer
            left = self.write_seconds()
            if left > 0:
                # Check again, because the lease may have been renewed or lost meanwhile.
                timer = loop.call_later(min(left, LEADING_LOOK_SECONDS), look)
            else:
                deadline.reschedule(loop.time())

        timer = loop.call_later(min(left, LEADING_LOOK_SECONDS), look)
        try:
            async with asyncio.timeout(None) as deadline:
                return await self._call(verb, kind, path, **request)
        except TimeoutError as error:
            raise errors.NotLeading("lost leadership during the write") from error
        finally:
            timer.cancel()

    async def _call(self, verb: str, kind: Kind, path: str, **request: Any) -> dict[str, Any]:
        read = read_object if verb in _OBJECT_VERBS else decoded
        return read(await self._request(verb, kind, path, **request))

    async def _request(  # noqa: PLR0913 -- the parts of an HTTP request, all passed by name
        self,
        verb: str,
        kind: Kind,
        path: str,
        *,
        method: str = "GET",
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        timeout_seconds: float | None = None,
    ) -> bytes:
        started = self._clock()
        code = 0
        try:
            async with self._session_of(kind).request(
                method,
                self._server + path,
                params=dict(query or {}),
                headers=self._headers(headers or {}),
                data=msgspec.json.encode(body) if body is not None else None,
                timeout=aiohttp.ClientTimeout(total=timeout_seconds or REQUEST_TIMEOUT_SECONDS),
            ) as answer:
                code = answer.status
                await self._raise_for(answer)
                return await answer.read()
        except (aiohttp.ClientError, OSError) as error:
            self._trust.review(error)
            raise errors.Unreachable(f"{verb} {path}: {_said(error)}") from error
        finally:
            self._observe(Call(verb, kind.rbac_name, code, self._clock() - started))

    def _session_of(self, kind: Kind) -> aiohttp.ClientSession:
        return _entered(self._open_leases if kind is LEASES else self._open)

    @property
    def _watches(self) -> aiohttp.ClientSession:
        return _entered(self._open_watches)

    def _headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        try:
            token = self._token.current()
        except OSError as error:
            raise errors.Unreachable(f"the token file cannot be read: {error}") from error
        given = {"Authorization": f"Bearer {token}"} if token else {}
        return {"Accept": "application/json", **given, **headers}

    async def _raise_for(self, answer: aiohttp.ClientResponse) -> None:
        if answer.status < 400:
            return
        if answer.status == 401:
            self._token.expire()
        try:
            status: object = msgspec.json.decode(await answer.read())
        except msgspec.DecodeError:
            status = None  # for example the HTML page of a proxy; only the code is used
        raise errors.from_status(
            answer.status, status, retry_after=answer.headers.get("Retry-After")
        )


def _entered(session: aiohttp.ClientSession | None) -> aiohttp.ClientSession:
    if session is None:
        raise RuntimeError("the client is used outside its async context")
    return session


def _said(error: BaseException) -> str:
    # Timeouts have no text.
    return str(error) or type(error).__name__
