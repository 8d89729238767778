"""Options of the test run."""

import signal

import hypothesis
import pytest

# A machine that does other work as well is no finding of a property.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("patient")

# A shell starts background jobs with interrupts ignored, which programs under test would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options that pytest only takes from this folder's conftest."""
    parser.addoption("--http-address", help="conformance: HOST:PORT of another server to test")
    parser.addoption("--grpc-address", help="conformance: HOST:PORT of the same server's gRPC")
