"""Selects the frontend by the first segments of the path.

The prefixes of the protocols do not overlap, so one dictionary lookup is enough. The frontend
handles everything below its prefix, including methods that are not allowed.
"""

import functools
from collections.abc import Awaitable

import msgspec

from moorage_runtime.frontends.http.faults import FaultRenderer, render_json
from moorage_runtime.frontends.http.message import Answer, Handler, HttpRequest, HttpResponse


class Mount(msgspec.Struct, frozen=True):
    """One frontend.

    Attributes:
        prefix: "/v2", "/v1/models"; "/" is only the root page.
        handler: The frontend's ``handle``.
        fault: Renders errors that occur before the frontend is called.
    """

    prefix: str
    handler: Handler
    fault: FaultRenderer = render_json


class Router:
    """Passes each request to the frontend of its path, or answers 404.

    Args:
        mounts: The frontends.
        otherwise: Handles all other paths.

    Raises:
        ValueError: Two mounts start with the same path segment.
    """

    def __init__(self, *mounts: Mount, otherwise: Handler | None = None) -> None:
        self._otherwise = otherwise
        self._by_segment: dict[str, Mount] = {}
        for mount in mounts:
            segment = _first_segment(mount.prefix)
            if segment in self._by_segment:
                raise ValueError(f"two frontends for /{segment}")
            self._by_segment[segment] = mount
        # clients use few paths; at most 2 MiB of them are cached
        self._find = functools.lru_cache(maxsize=256)(self._search)

    def handle(self, request: HttpRequest) -> Answer | Awaitable[Answer]:
        """The frontend's response."""
        mount = self._find(request.path)
        if mount is None and self._otherwise is not None:
            return self._otherwise(request)
        if mount is None:
            return render_json(request.path, 404, f"no such path: {request.path}")
        return mount.handler(request)

    def fault(self, path: str, status: int, message: str) -> HttpResponse:
        """An error in the form of the path's protocol."""
        mount = self._find(path)
        return (mount.fault if mount else render_json)(path, status, message)

    def _search(self, path: str) -> Mount | None:
        mount = self._by_segment.get(_first_segment(path))
        if mount is None or path == mount.prefix:
            return mount
        return mount if path.startswith(f"{mount.prefix}/") and mount.prefix != "/" else None


def _first_segment(path: str) -> str:
    end = path.find("/", 1)
    return path[1:] if end < 0 else path[1:end]
