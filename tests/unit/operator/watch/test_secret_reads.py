"""The content of a Secret, or why it was not read; never an exception."""

import base64
from typing import Any

import pytest

from moorage_operator.kube import errors
from moorage_operator.kube.kinds import SECRETS, Kind
from moorage_operator.values.secret_content import Unread
from moorage_operator.watch.secret_reads import reading_by

FORBIDDEN = (
    'secrets "s" is forbidden: User "system:serviceaccount:moorage:op" cannot get resource '
    '"secrets" in API group "" in the namespace "ns"'
)


class Api:
    """An API server with one answer."""

    def __init__(self, answer: dict[str, Any] | errors.ApiError) -> None:
        self.answer = answer

    async def get(
        self, kind: Kind, namespace: str, name: str, *, timeout_seconds: float
    ) -> dict[str, Any]:
        assert (kind, namespace, name) == (SECRETS, "ns", "s")
        assert timeout_seconds > 0
        if isinstance(self.answer, errors.ApiError):
            raise self.answer
        return self.answer


async def read(answer: dict[str, Any] | errors.ApiError) -> Any:
    return await reading_by(Api(answer))("ns", "s")  # type: ignore[arg-type]


async def test_the_values_are_decoded() -> None:
    data = {"a": base64.b64encode(b"\xff\n").decode(), "empty": ""}

    assert await read({"data": data}) == {"a": b"\xff\n", "empty": b""}
    assert await read({}) == {}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.NotFound("no", code=404), Unread("does not exist")),
        (
            errors.Forbidden(FORBIDDEN, code=403),
            Unread("may not be read by the operator", "system:serviceaccount:moorage:op"),
        ),
        (
            errors.Forbidden("by a webhook", code=403),
            Unread("may not be read by the operator", "the operator"),
        ),
        (errors.Unreachable("timed out"), Unread("could not be read: timed out")),
    ],
)
async def test_a_failed_read_says_why(error: errors.ApiError, expected: Unread) -> None:
    assert await read(error) == expected
