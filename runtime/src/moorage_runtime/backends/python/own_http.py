"""Checks what the http method of a model returns; pure.

    PythonModel.http -> checked() -> HttpReply that HTTP can send

The method is the model's own code, so its types are not those that it should have. Text in place
of bytes would be an empty response, and a status of other than three digits a broken one.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Self, cast

import msgspec

from moorage_runtime.values.errors import ModelFailed
from moorage_runtime.values.inference import HttpReply

# Those below 200 do not end a response.
_STATUSES: Final = range(200, 600)


def checked(reply: object) -> HttpReply:
    """The reply, with a body of bytes or an iterator that yields bytes.

    Raises:
        ModelFailed: It is not an HttpReply, or has an invalid status or body; the iterator raises
            it for a part that is not bytes.
    """
    if not isinstance(reply, HttpReply):
        raise ModelFailed(
            f"the model's http method returned {type(reply).__name__}: must return HttpReply"
        )
    status = cast("object", reply.status)  # the model's code is not ours
    if isinstance(status, bool) or not isinstance(status, int) or status not in _STATUSES:
        raise ModelFailed(
            f"the model's http method returned the status {status!r:.60}: must be an integer from "
            f"{_STATUSES.start} to {_STATUSES.stop - 1}"
        )
    return msgspec.structs.replace(reply, status=int(status), body=_body(reply.body))


class _Parts(Iterator[bytes]):
    """The parts of a body, which the model closes if the client leaves."""

    def __init__(self, body: Iterable[object]) -> None:
        self._parts = iter(body)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        part = next(self._parts)
        data = _bytes(part)
        if data is None:
            raise ModelFailed(
                f"the body of the model's http method yielded {type(part).__name__}: must yield "
                "bytes"
            )
        return data

    def close(self) -> None:
        """Close the model's own iterator."""
        close = getattr(self._parts, "close", None)
        if close is not None:
            close()


def _body(body: object) -> bytes | Iterator[bytes]:
    whole = _bytes(body)
    if whole is not None:
        return whole
    if isinstance(body, str | Mapping) or not isinstance(body, Iterable):
        raise ModelFailed(
            f"the model's http method returned a body of type {type(body).__name__}: must be "
            "bytes or an iterator of bytes"
        )
    return _Parts(cast("Iterable[object]", body))


def _bytes(value: object) -> bytes | None:
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None
