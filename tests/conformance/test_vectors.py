"""Every wire vector of every protocol, byte for byte if bytes matter."""

import contextlib
from collections.abc import Iterator

import pytest

from support import vectors

pytestmark = pytest.mark.conformance


@contextlib.contextmanager
def traffic(address: str, vector: vectors.Vector) -> Iterator[None]:
    """Take the server offline if the vector requires it, and online afterwards."""
    if vector.needs_offline:
        assert vectors.get(address, "/grps/v1/health/offline") == 200
    try:
        yield
    finally:
        if vector.needs_offline or vector.content["request"]["path"].lower().endswith("offline"):
            assert vectors.get(address, "/grps/v1/health/online") == 200


@pytest.mark.parametrize("vector", vectors.load(), ids=lambda vector: vector.name)
def test_vector(server_of, vector):
    ask(server_of(vector.set), vector)


@pytest.mark.parametrize(
    "vector", [v for v in vectors.load() if v.is_grpc], ids=lambda vector: vector.name
)
def test_vector_by_grpcio(server_of, vector):
    ask(server_of(vector.set, "grpcio"), vector)


def ask(server, vector):
    with traffic(server.http, vector):
        vectors.check(vector, server.http, server.grpc)
