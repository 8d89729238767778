import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def own_logging() -> Iterator[None]:
    """The root logger is as before after a test that configures logging."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before
