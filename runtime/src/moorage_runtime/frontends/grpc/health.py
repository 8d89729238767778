"""The standard gRPC health service, used by the kubelet's gRPC probes and by gRPC clients.

Service names and their status:

====================================  ==========================================================
``""``, ``readiness``, a protocol's   SERVING while the server is ready
full service name
``liveness``                          SERVING while the process serves
``model:<name>[/<version>]``          SERVING while that model is ready
====================================  ==========================================================

Watch sends the current status and each change. When the server drains, a watcher receives its last
status and the call ends, so that it does not delay the shutdown.

Source: grpc.health.v1, health.proto.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from typing import TYPE_CHECKING, Final

from moorage_runtime.codec import health as health_proto
from moorage_runtime.codec.health import ServingStatus
from moorage_runtime.frontends.grpc.methods import GrpcService, Message
from moorage_runtime.values import errors

if TYPE_CHECKING:
    from moorage_runtime.dataplane import Dataplane

NAME: Final = "grpc.health.v1.Health"
_LIVENESS: Final = "liveness"
_READINESS: Final = ("", "readiness")
_MODEL_PREFIX: Final = "model:"


def service(dataplane: "Dataplane", protocols: Collection[str]) -> GrpcService:
    """The health service; must be created in the event loop that serves it.

    Args:
        dataplane: The source of readiness.
        protocols: Full names of the other services on the same port.
    """
    health = _Health(dataplane, (*_READINESS, *protocols))
    return GrpcService(
        NAME, {"Check": health.check, "List": health.list_all}, {"Watch": health.watch}
    )


class _Health:
    """The methods, and the clients that watch for changes."""

    def __init__(self, dataplane: "Dataplane", readiness_names: Collection[str]) -> None:
        self._dataplane = dataplane
        self._readiness_names = tuple(readiness_names)
        self._loop = asyncio.get_running_loop()
        self._watchers: set[asyncio.Event] = set()
        dataplane.on_readiness_change(self._announce)

    def check(self, data: Message) -> bytes:
        name = health_proto.decode_check(data)
        status = self._status(name)
        if status is ServingStatus.SERVICE_UNKNOWN:
            raise errors.NotFound(
                f"service: {name[:200]!r} is unknown: must be "
                f"{', '.join(map(repr, self._readiness_names))}, {_LIVENESS!r} or "
                f"'{_MODEL_PREFIX}<name>[/<version>]'"
            )
        return health_proto.encode_status(status)

    def list_all(self, data: Message) -> bytes:
        del data  # the request has no fields
        names = (*self._readiness_names, _LIVENESS, *self._model_names())
        return health_proto.encode_list({name: self._status(name) for name in names})

    async def watch(self, data: Message) -> AsyncIterator[bytes]:
        name = health_proto.decode_check(data)
        changed = asyncio.Event()
        self._watchers.add(changed)
        try:
            sent = None
            while True:
                changed.clear()
                status = self._status(name)
                if status is not sent:
                    sent = status
                    yield health_proto.encode_status(status)
                if not self._dataplane.accepting():
                    return
                await changed.wait()
        finally:
            self._watchers.discard(changed)

    def _announce(self) -> None:
        # a model may become ready in the thread that loads it
        self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for changed in self._watchers:
            changed.set()

    def _status(self, name: str) -> ServingStatus:
        if name in self._readiness_names:
            return _serving(is_it=self._dataplane.ready())
        if name == _LIVENESS:
            return _serving(is_it=self._dataplane.live())
        if name.startswith(_MODEL_PREFIX):
            return self._model_status(name.removeprefix(_MODEL_PREFIX))
        return ServingStatus.SERVICE_UNKNOWN

    def _model_status(self, asked: str) -> ServingStatus:
        # a model's name may contain a slash, so the whole name is tried first
        name, slash, version = asked.rpartition("/")
        candidates = [(asked, ""), (name, version)] if slash and version else [(asked, "")]
        for candidate in candidates:
            try:
                status = self._dataplane.model_ready(*candidate)
            except errors.NotFound:
                continue
            except errors.RepositoryUnread:
                return ServingStatus.NOT_SERVING
            return _serving(is_it=status.state == "READY")
        return ServingStatus.SERVICE_UNKNOWN

    def _model_names(self) -> list[str]:
        return sorted(
            {f"{_MODEL_PREFIX}{status.name}" for status in self._dataplane.model_index()}
        )


def _serving(*, is_it: bool) -> ServingStatus:
    return ServingStatus.SERVING if is_it else ServingStatus.NOT_SERVING
