"""A problem with one entry of a repository affects only that entry."""

import errno
import gc
import os
import socket
import weakref
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from moorage_runtime.backends.base import LoadedModel, ModelSource
from moorage_runtime.backends.python.packages import Packages
from moorage_runtime.backends.python.process import IsolatingPythonBackend
from moorage_runtime.dataplane.metrics import InferenceMetrics
from moorage_runtime.repository import listing
from moorage_runtime.repository.loader import Loader
from moorage_runtime.values.errors import InvalidConfig, ModelFailed
from support.waiting import eventually
from unit.runtime.model_files import write_onnx, write_python
from unit.runtime.serving_fixtures import Server, refused


def socket_at(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        # the path may be too long for the address of a socket
        before = Path.cwd()
        os.chdir(path.parent)
        try:
            made.bind(path.name)
        finally:
            os.chdir(before)


ODD: dict[str, tuple[Callable[[Path], object], str]] = {
    "FIFO": (os.mkfifo, "a FIFO"),
    "socket": (socket_at, "a socket"),
    "folder": (Path.mkdir, "a folder"),
    "dangling": (lambda path: path.symlink_to("nowhere"), "a broken symbolic link"),
    "loop": (lambda path: path.symlink_to(path.name), "Too many levels of symbolic links"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "a device"),
}


@pytest.mark.parametrize("kind", ODD)
async def test_a_model_yaml_that_is_not_a_file_fails_its_model(tmp_path, kind):
    make, expected = ODD[kind]
    write_onnx(tmp_path / "a" / "1" / "model.onnx")
    write_onnx(tmp_path / "good" / "1" / "model.onnx")
    make(tmp_path / "a" / "model.yaml")
    server = Server(tmp_path)

    await server.load()

    assert server.states() == {("a", "1"): "FAILED", ("good", "1"): "READY"}
    assert "model.yaml is" in server.dataplane.model_ready("a").message
    assert expected in server.dataplane.model_ready("a").message


async def test_a_pointer_of_git_lfs_is_called_so(tmp_path):
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 123\n"
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "model.onnx").write_text(pointer)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "model.onnx").write_text("version 1")
    server = Server(tmp_path)

    await server.load()

    assert server.states() == {("a", "1"): "FAILED", ("b", "1"): "FAILED"}
    message = server.dataplane.model_ready("a").message
    assert "model.onnx is a pointer of Git LFS" in message
    assert "git lfs pull" in message
    assert "LFS" not in server.dataplane.model_ready("b").message


class Weights:
    """Weights of a model that does not load."""


class FailingLate:
    """A backend that fails with all weights in memory."""

    def __init__(self) -> None:
        self.weights: list[weakref.ref[Weights]] = []

    def load(self, source: ModelSource) -> LoadedModel:
        weights = Weights()
        self.weights.append(weakref.ref(weights))
        try:
            return [][len(f"{source.name} {weights}")]
        except IndexError as error:
            raise InvalidConfig("wrong") from error


async def test_a_load_that_fails_keeps_nothing_in_memory(tmp_path):
    write_onnx(tmp_path / "a" / "1" / "model.onnx")
    backend = FailingLate()
    server = Server(tmp_path, backends={"onnx": backend})
    gc.disable()
    try:
        await server.load()
        # the thread that loaded may still end
        eventually("all is freed", lambda: backend.weights[0]() is None, bool, 10)
    finally:
        gc.enable()

    assert server.states() == {("a", "1"): "FAILED"}


@pytest.mark.parametrize("kind", [kind for kind in ODD if kind != "folder"])
async def test_a_model_file_that_is_not_a_file_fails_its_model(tmp_path, kind):
    make, expected = ODD[kind]
    (tmp_path / "a").mkdir()
    write_onnx(tmp_path / "good" / "1" / "model.onnx")
    make(tmp_path / "a" / "model.onnx")
    server = Server(tmp_path)

    await server.load()

    assert server.states() == {("a", "1"): "FAILED", ("good", "1"): "READY"}
    assert expected in server.dataplane.model_ready("a").message


@pytest.mark.parametrize(
    "text", ["default_version: 2026-02-30", "[" * 2000, "a\0b", "labels: {a: &a [*a]}"]
)
async def test_an_invalid_model_yaml_fails_its_model(tmp_path, text):
    for name in ("a", "good"):
        write_onnx(tmp_path / name / "1" / "model.onnx")
    (tmp_path / "a" / "model.yaml").write_text(text)
    server = Server(tmp_path)

    await server.load()

    assert server.states() == {("a", "1"): "FAILED", ("good", "1"): "READY"}
    assert server.dataplane.model_ready("a").message.startswith("model.yaml")


async def test_an_unexpected_error_affects_only_its_model(tmp_path, monkeypatch):
    for name in ("a", "good"):
        write_onnx(tmp_path / name / "1" / "model.onnx")
    server = Server(tmp_path)
    follow = Loader._follow

    def failing(self, model, *rest, **options):
        if model.name == "a":
            raise RuntimeError("nobody expected this")
        return follow(self, model, *rest, **options)

    monkeypatch.setattr(Loader, "_follow", failing)
    await server.load()

    assert server.states() == {("a", "1"): "FAILED", ("good", "1"): "READY"}
    assert "nobody expected this" in server.dataplane.model_ready("a").message


async def test_a_message_of_a_library_may_contain_anything(tmp_path):
    raising = "def load(self, context):\n    raise ValueError('\\udcff' * 100_000)"
    write_python(tmp_path / "a" / "model.py", raising)
    server = Server(tmp_path)

    await server.load()

    message = server.dataplane.model_ready("a").message
    assert orjson.dumps(message)
    assert len(message) < 5000


async def test_the_root_of_an_ext4_volume_is_a_repository(tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO")
    write_onnx(tmp_path / "a" / "1" / "model.onnx")
    for name in ("lost+found", ".Trash-0", "__pycache__", "notes", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "notes" / "readme.txt").touch()
    (tmp_path / "readme.txt").touch()
    (tmp_path / "closed").mkdir()
    forbid(monkeypatch, "lost+found", "closed")
    server = Server(tmp_path)

    await server.load()
    await server.load()

    assert server.states() == {("a", "1"): "READY", ("closed", "1"): "FAILED"}
    assert "cannot be read: Permission denied" in server.dataplane.model_ready("closed").message
    assert server.dataplane.ready()
    said = [line for line in caplog.messages if line.startswith("skipped")]
    assert len(said) == 1
    for name in ("lost+found", ".Trash-0", "notes", "empty", "readme.txt"):
        assert f"{name} (" in said[0]


@pytest.mark.parametrize(
    ("files", "named"),
    [((), ["is empty"]), (("weights.h5", "notes/readme.txt"), ["weights.h5", "notes"])],
)
async def test_a_repository_without_models_is_a_warning(tmp_path, caplog, files, named):
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    server = Server(tmp_path)

    await server.load()
    await server.load()

    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    for fact in (str(tmp_path), "model.onnx", ".skops", *named):
        assert fact in warning.getMessage()
    assert "contains" in server.dataplane.repository_problem()


async def test_the_problem_of_a_repository_ends_with_its_first_model(tmp_path):
    server = Server(tmp_path)
    await server.load()
    assert server.dataplane.repository_problem()

    write_onnx(tmp_path / "a" / "1" / "model.onnx")
    await server.load()

    assert server.dataplane.repository_problem() == ""


async def test_a_model_keeps_serving_while_its_folder_is_unreadable(tmp_path, monkeypatch):
    # otherwise the files, which are new at the first scan only, seem to change
    monkeypatch.setattr(listing, "_TICK_NS", 0)
    write_onnx(tmp_path / "a" / "1" / "model.onnx")
    write_onnx(tmp_path / "b" / "1" / "model.onnx")
    server = Server(tmp_path)
    await server.load()

    with monkeypatch.context() as context:
        forbid(context, "a")
        await server.load()
        assert await server.infer("a") == [1.0, 2.0]
        assert "cannot be read" in server.dataplane.model_ready("a").message
    await server.load()

    assert server.dataplane.model_ready("a").message == ""
    assert server.states() == {("a", "1"): "READY", ("b", "1"): "READY"}


def forbid(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Folders that are not readable; tests may run as root, who can read all."""
    scandir = os.scandir

    def refusing(path):
        if os.path.basename(path) in names:  # noqa: PTH119 - as it is called
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return scandir(path)

    monkeypatch.setattr(listing.os, "scandir", refusing)


async def test_names_that_are_not_utf_8_are_skipped(tmp_path, caplog):
    caplog.set_level("INFO")
    for name in (b"bad\xff", b"good"):
        write_onnx(tmp_path / os.fsdecode(name) / "1" / "model.onnx")
    write_onnx(tmp_path / "good" / os.fsdecode(b"2\xff") / "model.onnx")
    registry = CollectorRegistry()
    server = Server(tmp_path)
    InferenceMetrics(registry).watch(server.registry.version_states)

    await server.load()

    assert server.states() == {("good", "1"): "READY"}
    assert b'model="good"' in generate_latest(registry)
    assert "'bad\\udcff' (its name is not UTF-8)" in caplog.text


async def test_links_may_be_circular_and_lead_outside(tmp_path):
    outside = tmp_path / "outside"
    write_onnx(outside / "model.onnx")
    root = tmp_path / "models"
    (root / "linked").mkdir(parents=True)
    (root / "linked" / "model.onnx").symlink_to(outside / "model.onnx")
    (root / "folder").symlink_to(outside)
    (root / "circle").symlink_to(root)
    (root / "linked" / "up").symlink_to("..")
    (root / "system").mkdir()
    (root / "system" / "1").symlink_to("/")
    server = Server(root)

    await server.load()

    states = server.states()
    assert states.pop(("system", "1")) == "FAILED"
    assert states == {("linked", "1"): "READY", ("folder", "1"): "READY"}


async def test_the_loader_continues_after_an_error_of_a_scan(tmp_path, monkeypatch):
    write_onnx(tmp_path / "a" / "1" / "model.onnx")
    server = Server(tmp_path, poll=0.01)
    read, calls = listing.read, []

    def failing_first(root, name):
        calls.append(root)
        if len(calls) < 3:
            raise RuntimeError("nobody expected this")
        return read(root, name)

    monkeypatch.setattr(listing, "read", failing_first)
    async with server.polling():
        await server.until(lambda: server.states() == {("a", "1"): "READY"})

    assert len(calls) >= 3


async def test_a_version_whose_process_restarts_is_not_ready_in_the_metrics(tmp_path):
    crash = "def predict(self, inputs, request):\n    import os\n    os._exit(3)"
    write_python(tmp_path / "a" / "model.py", crash)
    (tmp_path / "a" / "model.yaml").write_text("python: {isolation: process}")
    server = Server(tmp_path, backends={"python": IsolatingPythonBackend(Packages())})
    await server.load()
    registry = CollectorRegistry()
    InferenceMetrics(registry).watch(server.registry.version_states)
    labels = {"model": "a", "version": "1"}
    assert registry.get_sample_value("moorage_model_ready", labels) == 1

    await refused(ModelFailed, server.infer("a"))
    await server.until(lambda: server.states()["a", "1"] == "LOADING")

    assert registry.get_sample_value("moorage_model_ready", labels) == 0
    await server.loader.unload("a")
