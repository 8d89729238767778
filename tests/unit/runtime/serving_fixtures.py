"""Repository, registry and dataplane together, without listeners."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from moorage_runtime.backends.base import Backend
from moorage_runtime.backends.onnx.backend import OnnxBackend
from moorage_runtime.backends.python.model import PythonBackend
from moorage_runtime.dataplane import Dataplane
from moorage_runtime.dataplane.metrics import InferenceMetrics
from moorage_runtime.repository.loader import Loader, LoaderOptions
from moorage_runtime.repository.registry import ReadyWhen, Registry
from moorage_runtime.values.inference import InferRequest, ServerMetadata
from moorage_runtime.values.tensors import Datatype, Tensor

X = Tensor("x", Datatype.FP32, np.array([1, 2], np.float32))
DOUBLE = "def predict(self, inputs, request):\n    return {'y': inputs['x'] * 2}"


class Server:
    """A dataplane over a folder, without listeners."""

    def __init__(
        self,
        root: Path | None,
        name: str | None = None,
        latest: int = 0,
        ready_when: ReadyWhen = "any",
        listed: tuple[str, ...] = (),
        poll: float = 0.0,
        *,
        backends: Mapping[str, Backend] | None = None,
    ) -> None:
        metrics = InferenceMetrics(CollectorRegistry())
        self.registry = Registry(ready_when, listed)
        backends = backends or {"onnx": OnnxBackend(), "python": PythonBackend()}
        options = LoaderOptions(root, name, latest_versions=latest, poll_seconds=poll)
        self.loader = Loader(options, self.registry, backends, metrics.loaded, metrics.ran)
        self.dataplane = Dataplane(
            self.registry, self.loader, server=ServerMetadata("s", "1", ()), metrics=metrics
        )
        self.changes = asyncio.Event()
        self.dataplane.on_readiness_change(self.changes.set)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not holds():
                self.changes.clear()
                await self.changes.wait()

    async def load(self) -> None:
        """Read the repository and wait for every load to end."""
        await self.loader.refresh()
        await asyncio.gather(*self.loader._tasks)

    @contextlib.asynccontextmanager
    async def polling(self) -> AsyncIterator[None]:
        """With a running loader, as in a server."""
        task = asyncio.create_task(self.loader.run())
        try:
            yield
        finally:
            task.cancel()

    def states(self) -> dict[tuple[str, str], str]:
        return {(s.name, s.version): s.state for s in self.dataplane.model_index()}

    async def infer(self, name: str, version: str = "") -> list[float]:
        response = await self.dataplane.infer(InferRequest(name, version, (X,)))
        return response.outputs[0].array.tolist()


def refusal(error: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(error) as caught:
        call()
    return caught.value.message


async def refused(error: type[Exception], call: Awaitable[object]) -> str:
    with pytest.raises(error) as caught:
        await call
    return caught.value.message
