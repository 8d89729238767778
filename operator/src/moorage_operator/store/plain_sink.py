"""Passes the objects of a reflector to functions of a store, without its versions.

reflector --> PlainSink --> RuntimeStore, GatewayStore
"""

from collections.abc import Callable
from typing import Any

__all__ = ["PlainSink"]


class PlainSink:
    """A sink without versions: the reflector of a kind passes its objects in their order.

    Args:
        put: Stores an object.
        drop: Removes the deleted object with a uid.
        end_list: Takes note that all objects of a namespace ("" for all) are known.
    """

    def __init__(
        self,
        put: Callable[[dict[str, Any]], None],
        drop: Callable[[str], None],
        end_list: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._put = put
        self._drop = drop
        self._end_list = end_list

    def put(self, body: dict[str, Any], *, listed_at: str = "") -> None:  # noqa: ARG002 -- a sink
        """Store an object."""
        self._put(body)

    def drop(self, uid: str, version: str = "") -> None:  # noqa: ARG002 -- a sink
        """Remove an object."""
        self._drop(uid)

    def end_list(self, namespace: str, version: str) -> None:  # noqa: ARG002 -- a sink
        """Take note that a list is complete; the reflector drops what it lacks."""
        self._end_list(namespace)
