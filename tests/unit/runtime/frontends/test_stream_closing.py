"""The end of a response's stream."""

import contextlib

import pytest

from moorage_runtime.frontends.http.message import closing


class Endless:
    """Chunks that cannot be closed."""

    def __aiter__(self):
        return self

    async def __anext__(self):
        return b"x"


@pytest.mark.parametrize("error", [None, ConnectionError])
async def test_a_generator_of_chunks_is_closed_at_once(error):
    closed = []

    async def chunks():
        try:
            yield b"x"
            yield b"y"
        finally:
            closed.append(True)

    given = chunks()
    with contextlib.suppress(ConnectionError):
        async with closing(given) as opened:
            assert await anext(opened) == b"x"
            assert closed == []
            if error:
                raise error

    assert closed == [True]


async def test_chunks_that_cannot_be_closed_are_left():
    given = Endless()

    async with closing(given) as opened:
        assert await anext(opened) == b"x"

    assert await anext(given) == b"x"
