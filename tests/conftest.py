"""Options of the test run."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options that pytest only takes from this folder's conftest."""
    parser.addoption("--http-address", help="conformance: HOST:PORT of another server to test")
    parser.addoption("--grpc-address", help="conformance: HOST:PORT of the same server's gRPC")
