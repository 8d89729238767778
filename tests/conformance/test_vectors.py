"""Every wire vector of the protocols that are served, byte for byte where bytes matter."""

import contextlib
from collections.abc import Iterator

import pytest
from support import vectors

pytestmark = pytest.mark.conformance

# Prefixes of the vectors whose protocol the runtime serves.
SERVED = ("v2rest", "v2grpc", "bin", "tfs", "health")


@contextlib.contextmanager
def offline(address: str) -> Iterator[None]:
    """The server out of traffic for as long as the context is open."""
    assert vectors.get(address, "/grps/v1/health/offline") == 200
    try:
        yield
    finally:
        assert vectors.get(address, "/grps/v1/health/online") == 200


@pytest.mark.parametrize(
    "vector",
    [vector for vector in vectors.load() if vector.name.startswith(SERVED)],
    ids=lambda vector: vector.name,
)
def test_vector(server_of, vector):
    server = server_of(vector.set)
    with offline(server.http) if vector.needs_offline else contextlib.nullcontext():
        vectors.check(vector, server.http, server.grpc)
