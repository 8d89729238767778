"""Fixtures of the backends' tests."""

import pytest

from moorage_runtime.backends.onnx import providers


@pytest.fixture
def instead_of_cuda(monkeypatch):
    """Open sessions on the CPU where the backend asks for a GPU."""
    monkeypatch.setattr(providers, "choice", lambda *_, **__: ["CPUExecutionProvider"])
    monkeypatch.setattr(providers, "check_used", lambda *_: None)
