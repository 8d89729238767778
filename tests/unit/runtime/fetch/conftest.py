"""The time zone of a node."""

import time

import pytest


@pytest.fixture
def tokyo(monkeypatch):
    """The local time zone of the process is nine hours ahead of UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "JST-9")
        time.tzset()
        yield
    time.tzset()
