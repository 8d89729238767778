"""Repository, registry and dataplane together, on real files."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from moorage_runtime.backends.onnx import OnnxBackend
from moorage_runtime.backends.python import PythonBackend
from moorage_runtime.dataplane import Dataplane
from moorage_runtime.errors import (
    InvalidRequest,
    ModelFailed,
    ModelNotFound,
    ModelNotReady,
    VersionNotFound,
)
from moorage_runtime.inference import InferRequest, ServerMetadata
from moorage_runtime.metrics import InferenceMetrics
from moorage_runtime.repository.loader import Loader, LoaderOptions
from moorage_runtime.repository.registry import Registry
from moorage_runtime.tensors import Datatype, Tensor
from unit.runtime.model_files import write_onnx, write_python

X = Tensor("x", Datatype.FP32, np.array([1, 2], np.float32))
DOUBLE = "def predict(self, inputs, request):\n    return {'y': inputs['x'] * 2}"


class Server:
    """A dataplane over a folder, without listeners."""

    def __init__(self, root: Path | None, name: str | None = None, latest: int = 0) -> None:
        metrics = InferenceMetrics(CollectorRegistry())
        self.registry = Registry()
        backends = {"onnx": OnnxBackend(), "python": PythonBackend()}
        options = LoaderOptions(root, name, latest_versions=latest)
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
        await self.until(lambda: all(s.state != "LOADING" for s in self.dataplane.model_index()))

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


async def test_nothing_is_ready_before_the_repository_is_read(tmp_path):
    server = Server(tmp_path)

    assert server.dataplane.live()
    assert not server.dataplane.ready()
    await server.load()
    assert server.dataplane.ready()


async def test_a_model_becomes_known_together_with_its_versions(tmp_path):
    write_onnx(tmp_path / "a" / "1" / "model.onnx")
    server = Server(tmp_path)
    await server.load()
    write_onnx(tmp_path / "b" / "1" / "model.onnx")

    looking = asyncio.create_task(server.loader.refresh())
    while not looking.done():
        # at every step of the way it is either unknown or has its version
        try:
            assert server.dataplane.model_ready("b").version == "1"
        except ModelNotFound:
            assert "b" not in server.registry.names
        await asyncio.sleep(0)

    assert server.dataplane.model_ready("b").version == "1"


async def test_models_and_versions_answer(tmp_path):
    write_onnx(tmp_path / "a" / "1" / "model.onnx")
    write_onnx(tmp_path / "a" / "2" / "model.onnx", "Neg")
    write_python(tmp_path / "b" / "model.py", DOUBLE)
    server = Server(tmp_path)
    await server.load()

    assert await server.infer("a") == [-1.0, -2.0]
    assert await server.infer("a", "1") == [1.0, 2.0]
    assert await server.infer("b") == [2.0, 4.0]
    assert server.dataplane.model_metadata("a").versions == ("1", "2")
    assert server.dataplane.model_metadata("a").version == "2"
    assert server.dataplane.default_model() is None


async def test_the_response_says_which_version_answered_and_keeps_the_id(tmp_path):
    write_onnx(tmp_path / "model.onnx")
    server = Server(tmp_path, "m")
    await server.load()

    response = await server.dataplane.infer(InferRequest("m", "", (X,), id="mine"))

    assert (response.model_name, response.model_version, response.id) == ("m", "1", "mine")
    assert server.dataplane.default_model() == "m"


async def test_what_does_not_exist_is_named(tmp_path):
    write_onnx(tmp_path / "a" / "1" / "model.onnx")
    server = Server(tmp_path)
    await server.load()
    plane = server.dataplane

    assert refusal(ModelNotFound, lambda: plane.model_metadata("z")) == (
        "unknown model 'z', this server has 'a'"
    )
    assert refusal(VersionNotFound, lambda: plane.model_ready("a", "9")) == (
        "model 'a' has no version '9', it has '1'"
    )
    assert await refused(VersionNotFound, server.infer("a", "9"))


async def test_a_failed_model_keeps_the_server_not_ready_and_says_why(tmp_path):
    write_onnx(tmp_path / "good" / "model.onnx")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "model.onnx").write_bytes(b"x")
    server = Server(tmp_path)
    await server.load()

    assert not server.dataplane.ready()
    assert server.states() == {("bad", "1"): "FAILED", ("good", "1"): "READY"}
    assert "model.onnx is not a model" in server.dataplane.model_ready("bad").message
    assert "failed to load: model.onnx" in await refused(ModelNotReady, server.infer("bad"))
    assert await server.infer("good") == [1.0, 2.0]


async def test_a_new_version_takes_over_when_it_is_ready(tmp_path):
    write_onnx(tmp_path / "a" / "1" / "model.onnx")
    server = Server(tmp_path)
    await server.load()

    write_onnx(tmp_path / "a" / "2" / "model.onnx", "Neg")
    await server.load()

    assert await server.infer("a") == [-1.0, -2.0]
    assert server.dataplane.model_metadata("a", "1").versions == ("1", "2")


async def test_a_failed_new_version_leaves_the_old_one_serving(tmp_path):
    write_onnx(tmp_path / "a" / "1" / "model.onnx")
    server = Server(tmp_path)
    await server.load()

    (tmp_path / "a" / "2").mkdir()
    (tmp_path / "a" / "2" / "model.onnx").write_bytes(b"x")
    await server.load()

    assert await server.infer("a") == [1.0, 2.0]
    assert server.dataplane.ready()
    assert server.states() == {("a", "1"): "READY", ("a", "2"): "FAILED"}


async def test_a_failed_version_is_tried_again_when_its_file_changes(tmp_path):
    file = tmp_path / "a" / "model.onnx"
    file.parent.mkdir()
    file.write_bytes(b"x")
    server = Server(tmp_path)
    await server.load()
    await server.load()
    assert server.states() == {("a", "1"): "FAILED"}

    write_onnx(file)
    await server.load()

    assert server.states() == {("a", "1"): "READY"}
    assert server.dataplane.ready()


async def test_removed_versions_and_models_go(tmp_path):
    write_onnx(tmp_path / "a" / "1" / "model.onnx")
    write_onnx(tmp_path / "a" / "2" / "model.onnx")
    write_onnx(tmp_path / "b" / "model.onnx")
    server = Server(tmp_path)
    await server.load()

    (tmp_path / "a" / "2" / "model.onnx").unlink()
    (tmp_path / "a" / "2").rmdir()
    (tmp_path / "b" / "model.onnx").unlink()
    (tmp_path / "b").rmdir()
    await server.load()

    assert server.states() == {("a", "1"): "READY"}
    assert await server.infer("a") == [1.0, 2.0]


async def test_a_repository_that_vanishes_keeps_what_serves(tmp_path):
    root = tmp_path / "models"
    write_onnx(root / "a" / "model.onnx")
    server = Server(root)
    await server.load()

    root.rename(tmp_path / "away")
    await server.loader.refresh()

    assert await server.infer("a") == [1.0, 2.0]


@pytest.mark.parametrize(
    ("config", "chosen", "loaded"),
    [
        ("", "10", ("1", "9", "10")),
        ("default_version: '9'", "9", ("1", "9", "10")),
        ("versions: ['1', '9']", "9", ("1", "9")),
        ("versions: {latest: 2}", "10", ("9", "10")),
        ("versions: {latest: 9}", "10", ("1", "9", "10")),
    ],
)
async def test_model_yaml_chooses_versions(tmp_path, config, chosen, loaded):
    for version in ("1", "9", "10"):
        write_onnx(tmp_path / "a" / version / "model.onnx")
    (tmp_path / "a" / "model.yaml").write_text(config)
    server = Server(tmp_path)
    await server.load()

    assert server.dataplane.model_metadata("a").version == chosen
    assert server.dataplane.model_metadata("a").versions == loaded


@pytest.mark.parametrize(
    ("config", "loaded"),
    [("", ("10",)), ("versions: ['1']", ("1",)), ("versions: {latest: 2}", ("9", "10"))],
)
async def test_the_server_may_serve_the_latest_alone(tmp_path, config, loaded):
    for version in ("1", "9", "10"):
        write_onnx(tmp_path / "a" / version / "model.onnx")
    (tmp_path / "a" / "model.yaml").write_text(config)
    server = Server(tmp_path, latest=1)
    await server.load()

    assert server.dataplane.model_metadata("a").versions == loaded


async def test_a_wrong_model_yaml_fails_the_model_and_a_mended_one_loads(tmp_path):
    write_onnx(tmp_path / "a" / "model.onnx")
    (tmp_path / "a" / "model.yaml").write_text("labels: {stable: '7'}")
    server = Server(tmp_path)
    await server.load()
    assert "labels.stable: there is no version '7', expected one of 1" in (
        server.dataplane.model_ready("a").message
    )

    (tmp_path / "a" / "model.yaml").write_text("labels: {stable: '1'}\ndefault: true")
    await server.load()

    assert server.dataplane.model_metadata("a").labels == {"stable": "1"}
    assert server.dataplane.default_model() == "a"


async def test_unload_and_load(tmp_path):
    write_onnx(tmp_path / "a" / "model.onnx")
    server = Server(tmp_path)
    await server.load()

    await server.dataplane.unload("a")
    assert server.states() == {("a", "1"): "UNLOADED"}
    assert await refused(ModelNotReady, server.infer("a")) == "model 'a' version '1' is unloaded"
    await server.load()
    assert server.states() == {("a", "1"): "UNLOADED"}

    await server.dataplane.load("a")
    assert await server.infer("a") == [1.0, 2.0]
    await refused(ModelNotFound, server.dataplane.load("z"))
    await refused(ModelNotFound, server.dataplane.unload("z"))


async def test_a_reload_swaps_and_a_failed_reload_keeps_the_old(tmp_path):
    file = tmp_path / "a" / "model.onnx"
    write_onnx(file)
    server = Server(tmp_path)
    await server.load()

    write_onnx(file, "Neg")
    await server.dataplane.load("a")
    assert await server.infer("a") == [-1.0, -2.0]

    file.write_bytes(b"x")
    assert "failed to load 'a'" in await refused(ModelFailed, server.dataplane.load("a"))
    assert await server.infer("a") == [-1.0, -2.0]


async def test_a_load_that_never_ends_holds_up_nothing(tmp_path):
    stuck = "def load(self, context):\n    import threading\n    threading.Event().wait()"
    write_python(tmp_path / "stuck" / "model.py", stuck)
    write_onnx(tmp_path / "a" / "model.onnx")
    server = Server(tmp_path)
    await server.loader.refresh()
    await server.until(lambda: server.states()[("a", "1")] == "READY")

    assert await server.infer("a") == [1.0, 2.0]
    assert server.states()[("stuck", "1")] == "LOADING"
    assert not server.dataplane.ready()
    assert await refused(ModelNotReady, server.infer("stuck")) == (
        "model 'stuck' version '1' is loading"
    )
    server.loader.close()


async def test_requests_are_checked_before_they_run(tmp_path):
    write_onnx(tmp_path / "model.onnx", dims=(3,))
    server = Server(tmp_path, "m")
    await server.load()

    assert "has shape [2], expected [3]" in await refused(InvalidRequest, server.infer("m"))


async def test_draining_and_offline_turn_readiness_off(tmp_path):
    write_onnx(tmp_path / "model.onnx")
    server = Server(tmp_path, "m")
    await server.load()
    plane = server.dataplane

    await plane.offline()
    assert not plane.ready()
    assert plane.model_ready("m").state == "READY"
    await plane.online()
    assert plane.ready()

    plane.drain()
    assert not plane.ready()
    assert plane.live()
    assert not plane.accepting()
    assert plane.model_ready("m").state == "UNLOADED"
    assert await server.infer("m") == [1.0, 2.0]


async def test_a_stream_comes_in_parts(tmp_path):
    write_python(
        tmp_path / "model.py",
        "def stream(self, inputs, request):\n    for n in (1, 2):\n        yield {'y': [n]}",
    )
    server = Server(tmp_path, "m")
    await server.load()

    parts = [
        part.outputs[0].array.tolist()
        async for part in server.dataplane.infer_stream(InferRequest("m", "", ()))
    ]

    assert parts == [[1], [2]]
