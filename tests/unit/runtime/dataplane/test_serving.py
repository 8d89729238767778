"""Repository, registry and dataplane together, on real files."""

import asyncio
import queue

import pytest

from moorage_runtime.backends.base import LoadedModel, ModelSource
from moorage_runtime.backends.python.model import PythonBackend
from moorage_runtime.values.errors import (
    InvalidRequest,
    ModelFailed,
    ModelNotFound,
    ModelNotReady,
    VersionNotFound,
)
from moorage_runtime.values.inference import InferRequest
from unit.runtime.model_files import write_onnx, write_python
from unit.runtime.serving_fixtures import DOUBLE, Server, X, refusal, refused


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
        # at every step, it is either unknown or has its version
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


async def test_unknown_models_and_versions_are_reported(tmp_path):
    write_onnx(tmp_path / "a" / "1" / "model.onnx")
    server = Server(tmp_path)
    await server.load()
    plane = server.dataplane

    unknown = refusal(ModelNotFound, lambda: plane.model_metadata("z"))
    assert "'z'" in unknown
    assert "'a'" in unknown
    missing = refusal(VersionNotFound, lambda: plane.model_ready("a", "9"))
    assert "'a' has no version '9'" in missing
    assert "'1'" in missing
    assert await refused(VersionNotFound, server.infer("a", "9"))


@pytest.mark.parametrize(
    ("ready_when", "listed", "expected"),
    [
        ("any", (), True),
        ("all", (), False),
        ("listed", ("good",), True),
        ("listed", ("good", "bad"), False),
        ("listed", ("absent",), False),
    ],
)
async def test_a_failed_model_gives_its_reason_and_counts_by_policy(
    tmp_path, ready_when, listed, expected
):
    write_onnx(tmp_path / "good" / "model.onnx")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "model.onnx").write_bytes(b"x")
    server = Server(tmp_path, ready_when=ready_when, listed=listed)
    await server.load()

    assert server.dataplane.ready() is expected
    assert server.states() == {("bad", "1"): "FAILED", ("good", "1"): "READY"}
    assert (
        "model.onnx is not a valid ONNX model: Load model from"
        in server.dataplane.model_ready("bad").message
    )
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


async def test_models_keep_serving_when_the_repository_disappears(tmp_path):
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
async def test_the_server_can_serve_only_the_latest_version(tmp_path, config, loaded):
    for version in ("1", "9", "10"):
        write_onnx(tmp_path / "a" / version / "model.onnx")
    (tmp_path / "a" / "model.yaml").write_text(config)
    server = Server(tmp_path, latest=1)
    await server.load()

    assert server.dataplane.model_metadata("a").versions == loaded


async def test_an_invalid_model_yaml_fails_the_model_until_it_is_corrected(tmp_path):
    write_onnx(tmp_path / "a" / "model.onnx")
    (tmp_path / "a" / "model.yaml").write_text("labels: {stable: '7'}")
    server = Server(tmp_path)
    await server.load()
    assert "model.yaml: labels.stable: version '7' does not exist" in (
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
    assert "failed to load model 'a': model.onnx is not a valid ONNX model:" in await refused(
        ModelFailed, server.dataplane.load("a")
    )
    assert await server.infer("a") == [-1.0, -2.0]


async def test_an_endless_load_delays_nothing_else(tmp_path):
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


class Reporting:
    """A backend whose loads wait, and report what the test says."""

    def __init__(self) -> None:
        self.loads: queue.SimpleQueue[queue.SimpleQueue[str | None]] = queue.SimpleQueue()
        self.reported: queue.SimpleQueue[str] = queue.SimpleQueue()

    def load(self, source: ModelSource) -> LoadedModel:
        texts: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.loads.put(texts)
        while (text := texts.get()) is not None:
            source.report(text)
            self.reported.put(text)
        return PythonBackend().load(source)

    async def begun(self) -> "queue.SimpleQueue[str | None]":
        """Receives what the next load reports; None ends the load."""
        return await asyncio.to_thread(self.loads.get, timeout=20)

    async def say(self, texts: "queue.SimpleQueue[str | None]", text: str) -> None:
        """Let a load report a text, and return when the event loop has received it."""
        texts.put(text)
        assert await asyncio.to_thread(self.reported.get, timeout=20) == text


INSTALLING = "installing 3 packages of requirements.txt"


async def test_what_a_load_is_doing_is_in_the_answers_until_it_is_done(tmp_path):
    write_python(tmp_path / "a" / "1" / "model.py", DOUBLE)
    backend = Reporting()
    server = Server(tmp_path, backends={"python": backend})
    await server.loader.refresh()
    load = await backend.begun()
    assert server.dataplane.model_ready("a").message == ""
    server.changes.clear()

    await backend.say(load, INSTALLING)

    status = server.dataplane.model_ready("a")
    assert (status.state, status.message) == ("LOADING", INSTALLING)
    assert server.changes.is_set()
    assert refusal(ModelNotReady, lambda: server.dataplane.model_metadata("a")) == (
        f"model 'a' version '1' is loading: {INSTALLING}"
    )
    await backend.say(load, "")
    assert refusal(ModelNotReady, lambda: server.dataplane.model_metadata("a")) == (
        "model 'a' version '1' is loading"
    )
    await backend.say(load, INSTALLING)
    load.put(None)
    await server.until(lambda: server.states() == {("a", "1"): "READY"})
    assert server.dataplane.model_ready("a").message == ""


async def test_a_version_that_serves_stays_ready_while_its_replacement_reports(tmp_path):
    write_python(tmp_path / "a" / "1" / "model.py", DOUBLE)
    backend = Reporting()
    server = Server(tmp_path, backends={"python": backend})
    await server.loader.refresh()
    (await backend.begun()).put(None)
    await server.until(lambda: server.states() == {("a", "1"): "READY"})
    asked = asyncio.create_task(server.dataplane.load("a"))
    load = await backend.begun()

    await backend.say(load, INSTALLING)

    status = server.dataplane.model_ready("a")
    assert (status.state, status.message) == ("READY", "")
    load.put(None)
    await asked


async def test_only_the_last_load_of_a_version_reports(tmp_path):
    write_python(tmp_path / "a" / "1" / "model.py", DOUBLE)
    backend = Reporting()
    server = Server(tmp_path, backends={"python": backend})
    await server.loader.refresh()
    first = await backend.begun()
    await backend.say(first, INSTALLING)
    asked = asyncio.create_task(server.dataplane.load("a"))
    second = await backend.begun()
    assert server.dataplane.model_ready("a").message == ""

    await backend.say(second, "unpacking")
    await backend.say(first, "late")

    assert server.dataplane.model_ready("a").message == "unpacking"
    first.put(None)
    second.put(None)
    await asked


async def test_requests_are_checked_before_they_run(tmp_path):
    write_onnx(tmp_path / "model.onnx", dims=(3,))
    server = Server(tmp_path, "m")
    await server.load()

    assert "input 'x' has shape [2]" in await refused(InvalidRequest, server.infer("m"))


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
