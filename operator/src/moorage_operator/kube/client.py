"""A thin async client of the Kubernetes API: get, list, watch, apply, create, delete.

It stands under everything that reads or writes the cluster. It knows HTTP and the API's
conventions, and nothing of models: no retry, no cache, no decision. Every failure is one of
`errors`, and every finished request is reported to an observer, from which metrics are made.
"""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec

from . import auth, errors
from .bodies import Change, Page, decoded, lines, read_change, read_page
from .kinds import Kind

PAGE = 250
"""Objects a list page: about 2 MiB of JSON, which is what a list costs at a time."""

REQUEST_TIMEOUT_SECONDS = 30.0
"""For everything but watches. The API server ends its own work after 60 s; we would retry then."""

WATCH_TIMEOUT_SECONDS = 290
"""After this the server ends a watch in order, so that connections spread over servers."""

SILENCE_SECONDS = 130.0
"""Bookmarks come about each minute; when two are missing, the connection is dead (half-open)."""

_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


@dataclass(frozen=True, slots=True)
class Call:
    """A finished request: what it was, how it went (code 0: no answer) and how long it took."""

    verb: str
    resource: str
    code: int
    seconds: float


class KubeClient:
    """The API server as an async context.

    Args:
        access: Where it is and how to authenticate.
        observe: Called with each finished request.
        clock: Monotonic seconds.

    Attributes:
        gate: Asked before each write but those of the lease; False refuses it with NotLeading.
    """

    def __init__(
        self,
        access: auth.Access,
        *,
        observe: Callable[[Call], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.gate: Callable[[], bool] = lambda: True
        self._server = access.server
        self._context = auth.ssl_context(access)
        self._token = auth.Token(access, clock=clock)
        self._observe = observe
        self._clock = clock
        self._open: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(
            # 32 workers, twice as many with a crowd of new models, and the watches stay
            # below; more would only queue in the API server.
            limit=128,
            ssl=self._context or True,
        )
        self._open = aiohttp.ClientSession(connector=connector, trust_env=False)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._open is not None:
            await self._open.close()
            self._open = None

    async def serves(self, kind: Kind) -> bool:
        """Whether the API server knows the kind (its CRD is there and established)."""
        try:
            found = await self._call("discover", kind, f"/apis/{kind.group}/{kind.version}")
        except errors.NotFound:
            return False
        return any(entry.get("name") == kind.plural for entry in found.get("resources", []))

    async def get(
        self, kind: Kind, namespace: str, name: str, *, metadata_only: bool = False
    ) -> dict[str, Any]:
        """One object, or its metadata alone."""
        headers = {"Accept": _METADATA} if metadata_only else {}
        return await self._call("get", kind, kind.path(namespace, name), headers=headers)

    async def page(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        selector: str = "",
        continue_: str = "",
        metadata_only: bool = False,
    ) -> Page:
        """One page of a list.

        Raises:
            Gone: The continue token has expired; list from the start.
        """
        query = {"limit": str(PAGE)}
        query |= {"labelSelector": selector} if selector else {}
        query |= {"continue": continue_} if continue_ else {}
        headers = {"Accept": _METADATA_LIST} if metadata_only else {}
        answer = await self._request(
            "list", kind, kind.path(namespace), query=query, headers=headers
        )
        return read_page(answer)

    async def watch(
        self, kind: Kind, namespace: str = "", *, selector: str = "", resource_version: str
    ) -> AsyncIterator[Change]:
        """Changes since a resourceVersion, until the server ends the watch.

        Raises:
            Gone: The resourceVersion is too old; list again.
            Unreachable: The connection broke or stayed silent.
        """
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(WATCH_TIMEOUT_SECONDS),
        }
        query |= {"labelSelector": selector} if selector else {}
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=REQUEST_TIMEOUT_SECONDS, sock_read=SILENCE_SECONDS
        )
        started = self._clock()
        code = 0
        try:
            async with self._session.get(
                self._server + kind.path(namespace),
                params=query,
                headers=self._headers({}),
                timeout=timeout,
            ) as answer:
                code = answer.status
                await self._raise_for(answer)
                async for line in lines(answer.content.iter_any()):
                    yield read_change(line)
        except (aiohttp.ClientError, OSError) as error:
            raise errors.Unreachable(f"watch {kind.rbac_name}: {_said(error)}") from error
        finally:
            self._observe(Call("watch", kind.rbac_name, code, self._clock() - started))

    async def apply(
        self, kind: Kind, body: Mapping[str, Any], *, field_manager: str
    ) -> dict[str, Any]:
        """The object after server-side apply; fields of other managers are taken over.

        Raises:
            Conflict: `metadata.uid` is given and is not that of the object.
            Invalid, Forbidden: The object is refused.
            NotLeading: This process must not write now.
        """
        self._check_gate()
        metadata = body["metadata"]
        return await self._call(
            "patch",
            kind,
            kind.path(metadata["namespace"], metadata["name"]),
            method="PATCH",
            # Apply refuses unknown fields by itself; the default, Warn, parses the body once more.
            query={"fieldManager": field_manager, "force": "true", "fieldValidation": "Ignore"},
            # JSON is YAML, and the API server takes this content type for apply in every version.
            headers={"Content-Type": "application/apply-patch+yaml"},
            body=body,
        )

    async def create(
        self, kind: Kind, body: Mapping[str, Any], *, gated: bool = True
    ) -> dict[str, Any]:
        """The object as created.

        Raises:
            Conflict: There is one of this name already.
            NotLeading: It is gated, and this process must not write now.
        """
        if gated:
            self._check_gate()
        headers = {"Content-Type": "application/json"}
        path = kind.path(body["metadata"]["namespace"])
        return await self._call("create", kind, path, method="POST", headers=headers, body=body)

    async def try_out(self, kind: Kind, body: Mapping[str, Any]) -> dict[str, Any]:
        """The object as it would be created; nothing is made, so it is never gated.

        Raises:
            Invalid, Forbidden: The object would be refused.
        """
        headers = {"Content-Type": "application/json"}
        path = kind.path(body["metadata"]["namespace"])
        query = {"dryRun": "All"}
        return await self._call(
            "dry-run", kind, path, method="POST", query=query, headers=headers, body=body
        )

    async def replace(self, kind: Kind, body: Mapping[str, Any]) -> dict[str, Any]:
        """The object as replaced; never gated, for it is how the lease is held.

        Raises:
            Conflict: The object is not the one of the given `metadata.resourceVersion` any more.
        """
        headers = {"Content-Type": "application/json"}
        metadata = body["metadata"]
        path = kind.path(metadata["namespace"], metadata["name"])
        return await self._call("update", kind, path, method="PUT", headers=headers, body=body)

    async def delete(
        self, kind: Kind, namespace: str, name: str, *, uid: str, resource_version: str
    ) -> None:
        """Delete an object as it was seen, and what it owns after it.

        Raises:
            Conflict: It is another object, or was changed since.
            NotFound: It is gone.
            NotLeading: This process must not write now.
        """
        self._check_gate()
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid, "resourceVersion": resource_version},
            "propagationPolicy": "Background",
        }
        headers = {"Content-Type": "application/json"}
        path = kind.path(namespace, name)
        await self._call("delete", kind, path, method="DELETE", headers=headers, body=options)

    def _check_gate(self) -> None:
        if not self.gate():
            raise errors.NotLeading("this process does not lead, so it writes nothing")

    async def _call(self, verb: str, kind: Kind, path: str, **request: Any) -> dict[str, Any]:
        return decoded(await self._request(verb, kind, path, **request))

    async def _request(  # noqa: PLR0913 -- the parts of one HTTP request, all named at the call
        self,
        verb: str,
        kind: Kind,
        path: str,
        *,
        method: str = "GET",
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> bytes:
        started = self._clock()
        code = 0
        try:
            async with self._session.request(
                method,
                self._server + path,
                params=dict(query or {}),
                headers=self._headers(headers or {}),
                data=msgspec.json.encode(body) if body is not None else None,
                timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_SECONDS),
            ) as answer:
                code = answer.status
                await self._raise_for(answer)
                return await answer.read()
        except (aiohttp.ClientError, OSError) as error:
            raise errors.Unreachable(f"{verb} {path}: {_said(error)}") from error
        finally:
            self._observe(Call(verb, kind.rbac_name, code, self._clock() - started))

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._open is None:
            raise RuntimeError("the client is used outside its async context")
        return self._open

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
            status = None  # a proxy's HTML page; the code alone must do
        raise errors.from_status(
            answer.status, status, retry_after=answer.headers.get("Retry-After")
        )


def _said(error: BaseException) -> str:
    # Timeouts have no text of their own.
    return str(error) or type(error).__name__
