"""Polling follows the disk, and the last of several requests counts."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from moorage_runtime.repository import listing
from moorage_runtime.values.errors import ModelFailed, ModelNotReady
from unit.runtime.model_files import write_onnx, write_python
from unit.runtime.serving_fixtures import Server, refused

READS = (
    "def load(self, context):\n"
    "    self.by = float((context.folder / 'factor').read_text())\n"
    "def predict(self, inputs, request):\n"
    "    return {'y': inputs['x'] * self.by}"
)
WAITS = (
    "def load(self, context):\n"
    "    import time\n"
    "    folder = context.folder\n"
    "    number = len(list(folder.glob('begun*')))\n"
    "    (folder / f'begun{number}').touch()\n"
    "    self.by = float((folder / 'factor').read_text())\n"
    "    while not (folder / 'go').exists():\n"
    "        time.sleep(0.01)\n"
    "def predict(self, inputs, request):\n"
    "    return {'y': inputs['x'] * self.by}"
)


async def settle(server: Server) -> None:
    """Two scans: a serving version is replaced when both agree."""
    await aged()
    await server.load()
    await server.load()


async def aged() -> None:
    """Wait until no file is so new that it may change without a new time."""
    until = time.time_ns() + listing._TICK_NS
    while time.time_ns() <= until:  # noqa: ASYNC110 - nobody but the clock knows
        await asyncio.sleep(0.01)


async def begun(folder: Path, number: int) -> None:
    """Wait until this many loads have started to read the folder."""
    async with asyncio.timeout(20):
        while not (folder / f"begun{number - 1}").exists():  # noqa: ASYNC110 - a thread writes it
            await asyncio.sleep(0.01)


async def test_a_failed_model_loads_after_a_missing_file_is_added(tmp_path):
    write_python(tmp_path / "a" / "1" / "model.py", READS)
    server = Server(tmp_path)
    await server.load()
    assert server.states() == {("a", "1"): "FAILED"}

    (tmp_path / "a" / "1" / "factor").write_text("3")
    await server.load()

    assert await server.infer("a") == [3.0, 6.0]


async def test_changed_files_of_a_serving_version_are_loaded(tmp_path):
    write_onnx(tmp_path / "a" / "1" / "model.onnx")
    write_python(tmp_path / "b" / "model.py", READS)
    (tmp_path / "b" / "factor").write_text("3")
    server = Server(tmp_path)
    await settle(server)
    assert await server.infer("b") == [3.0, 6.0]

    write_onnx(tmp_path / "a" / "1" / "model.onnx", "Neg")
    (tmp_path / "b" / "factor").write_text("4")
    await aged()
    await server.load()
    assert await server.infer("a") == [1.0, 2.0]
    await server.load()

    assert await server.infer("a") == [-1.0, -2.0]
    assert await server.infer("b") == [4.0, 8.0]


async def test_a_change_that_does_not_load_keeps_the_serving_version(tmp_path):
    file = tmp_path / "a" / "1" / "model.onnx"
    write_onnx(file)
    server = Server(tmp_path)
    await settle(server)

    file.write_bytes(b"x")
    await settle(server)
    assert await server.infer("a") == [1.0, 2.0]
    assert (
        "model.onnx is not a valid ONNX model: Load model from"
        in server.dataplane.model_ready("a").message
    )

    write_onnx(file, "Neg")
    await settle(server)
    assert await server.infer("a") == [-1.0, -2.0]
    assert server.dataplane.model_ready("a").message == ""


async def test_a_change_in_the_same_clock_tick_is_loaded(tmp_path, monkeypatch):
    """The second change has the size and the times of the first."""
    file = tmp_path / "b" / "factor"
    write_python(tmp_path / "b" / "model.py", READS)
    file.write_text("3")
    server = Server(tmp_path)
    await server.load()
    assert await server.infer("b") == [3.0, 6.0]
    before = file.stat()

    file.write_text("4")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    frozen = listing._Look.stamp

    def same_tick(self, status):
        times = (before.st_mtime_ns, before.st_ctime_ns, frozen(self, status)[-1])
        return (status.st_size, *times) if status.st_size == 1 else frozen(self, status)

    monkeypatch.setattr(listing._Look, "stamp", same_tick)
    await settle(server)

    assert await server.infer("b") == [4.0, 8.0]


async def test_a_signature_of_an_unknown_tensor_fails_its_model(tmp_path):
    write_onnx(tmp_path / "a" / "1" / "model.onnx")
    config = tmp_path / "a" / "model.yaml"
    config.write_text("signatures: {serving_default: {inputs: {x: z}, outputs: {y: y}}}")
    server = Server(tmp_path)

    await server.load()

    assert server.states() == {("a", "1"): "FAILED"}
    problem = server.dataplane.model_ready("a").message
    assert "signatures.serving_default.inputs.x: the model has no tensor 'z'" in problem


async def test_a_signature_of_an_unknown_tensor_leaves_a_serving_model_its_signatures(tmp_path):
    write_onnx(tmp_path / "a" / "1" / "model.onnx")
    config = tmp_path / "a" / "model.yaml"
    config.write_text("signatures: {good: {inputs: {x: x}, outputs: {y: y}}}")
    server = Server(tmp_path)
    await settle(server)

    config.write_text("signatures: {bad: {inputs: {x: z}, outputs: {y: y}}}")
    await settle(server)

    assert await server.infer("a") == [1.0, 2.0]
    assert list(server.dataplane.model_metadata("a").signatures) == ["good"]
    (status,) = server.dataplane.model_index()
    assert "signatures.bad.inputs.x: the model has no tensor 'z'" in status.message

    config.write_text("signatures: {better: {inputs: {x: x}, outputs: {y: y}}}")
    await settle(server)

    assert list(server.dataplane.model_metadata("a").signatures) == ["better"]
    (status,) = server.dataplane.model_index()
    assert status.message == ""


async def test_a_repaired_model_yaml_of_a_serving_model_is_applied(tmp_path):
    write_onnx(tmp_path / "a" / "1" / "model.onnx")
    config = tmp_path / "a" / "model.yaml"
    server = Server(tmp_path)
    await settle(server)

    config.write_text("labels: {stable: '7'}")
    await settle(server)
    assert await server.infer("a") == [1.0, 2.0]
    assert "labels.stable" in server.dataplane.model_ready("a").message
    assert "labels.stable" in await refused(ModelFailed, server.dataplane.load("a"))

    config.write_text("labels: {stable: '1'}")
    await settle(server)
    assert server.dataplane.model_ready("a").message == ""
    assert server.dataplane.model_metadata("a").labels == {"stable": "1"}
    await server.dataplane.load("a")


async def test_changed_metadata_needs_no_load(tmp_path):
    write_onnx(tmp_path / "a" / "1" / "model.onnx")
    server = Server(tmp_path)
    await settle(server)
    model = server.registry.loaded("a", "1").runner.model

    (tmp_path / "a" / "model.yaml").write_text("platform: mine\nlabels: {stable: '1'}")
    await settle(server)

    metadata = server.dataplane.model_metadata("a")
    assert (metadata.platform, metadata.labels) == ("mine", {"stable": "1"})
    assert server.registry.loaded("a", "1").runner.model is model


async def test_changed_options_need_a_load(tmp_path):
    by = "def load(self, context):\n    self.by = context.parameters['by']\n"
    write_python(
        tmp_path / "a" / "model.py",
        f"{by}def predict(self, inputs, request):\n    return {{'y': inputs['x'] * self.by}}",
    )
    (tmp_path / "a" / "model.yaml").write_text("parameters: {by: 2}")
    server = Server(tmp_path)
    await settle(server)
    assert await server.infer("a") == [2.0, 4.0]

    (tmp_path / "a" / "model.yaml").write_text("parameters: {by: 3}")
    await settle(server)

    assert await server.infer("a") == [3.0, 6.0]


async def test_an_unchanged_repository_causes_no_events_and_no_loads(tmp_path):
    for name in "abc":
        write_onnx(tmp_path / name / "1" / "model.onnx")
    server = Server(tmp_path)
    await settle(server)
    told = []
    server.dataplane.on_readiness_change(lambda: told.append(1))
    models = [server.registry.loaded(name, "1").runner.model for name in "abc"]

    await settle(server)

    assert told == []
    assert models == [server.registry.loaded(name, "1").runner.model for name in "abc"]


async def test_a_scan_of_many_models_causes_one_event(tmp_path):
    server = Server(tmp_path)
    await server.load()
    for number in range(20):
        (tmp_path / f"m{number}" / "1").mkdir(parents=True)
    told = []
    server.dataplane.on_readiness_change(lambda: told.append(1))

    await server.loader.refresh()

    assert len(told) == 1


async def test_an_unloaded_model_stays_so_while_its_files_change(tmp_path):
    write_onnx(tmp_path / "a" / "1" / "model.onnx")
    server = Server(tmp_path)
    await settle(server)
    await server.dataplane.unload("a")

    write_onnx(tmp_path / "a" / "2" / "model.onnx")
    (tmp_path / "a" / "model.yaml").write_text("]")
    await settle(server)
    assert server.states() == {("a", "1"): "UNLOADED", ("a", "2"): "UNLOADED"}

    (tmp_path / "a" / "model.yaml").unlink()
    await server.dataplane.load("a")
    assert server.states() == {("a", "1"): "READY", ("a", "2"): "READY"}


async def test_a_load_after_an_unload_during_a_load_counts(tmp_path):
    folder = tmp_path / "a"
    write_python(folder / "model.py", WAITS)
    (folder / "factor").write_text("3")
    server = Server(tmp_path)
    await server.loader.refresh()
    await begun(folder, 1)

    await server.dataplane.unload("a")
    (folder / "factor").write_text("4")
    asked = asyncio.create_task(server.dataplane.load("a"))
    await begun(folder, 2)
    assert server.states() == {("a", "1"): "LOADING"}
    (folder / "go").touch()
    await asked

    assert server.states() == {("a", "1"): "READY"}
    assert await server.infer("a") == [4.0, 8.0]


async def test_a_load_that_is_unloaded_in_the_meantime_fails(tmp_path):
    folder = tmp_path / "a"
    write_python(folder / "model.py", WAITS)
    (folder / "factor").write_text("3")
    server = Server(tmp_path)
    await server.loader.refresh()
    await begun(folder, 1)
    asked = asyncio.create_task(server.dataplane.load("a"))
    await begun(folder, 2)

    await server.dataplane.unload("a")

    assert "was unloaded" in await refused(ModelFailed, asked)
    (folder / "go").touch()
    assert server.states() == {("a", "1"): "UNLOADED"}
    await refused(ModelNotReady, server.infer("a"))


async def test_a_load_that_never_ends_does_not_block_a_later_one(tmp_path):
    folder = tmp_path / "a"
    write_python(folder / "model.py", WAITS)
    (folder / "factor").write_text("3")
    server = Server(tmp_path)
    await server.loader.refresh()
    await begun(folder, 1)

    write_python(folder / "model.py", READS)
    await server.dataplane.load("a")

    assert await server.infer("a") == [3.0, 6.0]
    (folder / "go").touch()


async def test_the_readiness_of_a_server_outlives_models_that_come_later(tmp_path):
    write_onnx(tmp_path / "a" / "1" / "model.onnx")
    server = Server(tmp_path)
    await server.load()

    write_python(tmp_path / "b" / "model.py", WAITS)
    await server.loader.refresh()

    assert server.states()[("b", "1")] == "LOADING"
    assert server.dataplane.ready()
    (tmp_path / "b" / "go").touch()


@pytest.mark.parametrize("ready_when", ["any", "all"])
async def test_a_server_whose_only_model_failed_is_not_ready(tmp_path, ready_when):
    (tmp_path / "model.onnx").write_bytes(b"x")
    server = Server(tmp_path, "m", ready_when=ready_when)

    await server.load()

    assert not server.dataplane.ready()
