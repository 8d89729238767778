"""Random changes of a polled repository: afterwards, the server equals a fresh one.

    REPOSITORY_SEED=7 REPOSITORY_ROUNDS=99 .venv/bin/pytest tests/attack/test_repository_changes.py

Each round makes random changes on the disk and load or unload requests, without waiting for the
server, and then compares it with a new server for the same folder. They must agree in models,
versions, states, reasons, metadata and responses. If a model on the disk cannot be loaded, the
older server may keep serving the previous one, with the same reason.
"""

import contextlib
import os
import random
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.runtime import Runtime, running
from support.waiting import eventually

ROUNDS = int(os.environ.get("REPOSITORY_ROUNDS", "10"))
SEED = int(os.environ.get("REPOSITORY_SEED", "1"))
pytestmark = [pytest.mark.conformance, pytest.mark.timeout(120 + 30 * ROUNDS)]

CHANGES = 8  # per round
POLL_SECONDS = 0.1
SETTLE_SECONDS = 30
NAMES = ("a", "b", "c-1", "ü d")
VERSIONS = ("1", "2", "10")
BAD_CONFIGS = (
    "default_version: 2026-02-30",
    "[" * 2000,
    "a: &a [*a]",
    "a\0b",
    "labels: {stable: '99'}",
    "colour: red",
    "versions: ['77']",
)
GOOD_CONFIGS = (
    "",
    "platform: mine",
    "default: true",
    "batching: false",
    "versions: {latest: 1}",
    "version_numbers: {}",
    "onnx: {threads: 1}",
    "parameters: {plus: 5}",
)
PYTHON = """\
from moorage_runtime.backends.python import PythonModel


class Model(PythonModel):
    inputs = [("x", "FP32", [-1])]
    outputs = [("y", "FP32", [-1])]

    def load(self, context):
        self.plus = float((context.folder / "plus").read_text())
        self.plus += context.parameters.get("plus", 0)

    def predict(self, inputs, request):
        return {"y": inputs["x"] + self.plus}
"""


def onnx_bytes(plus: int) -> bytes:
    """A model that adds a number, which identifies it; all models have the same size."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "c"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
        initializer=[numpy_helper.from_array(np.float32(plus), "c")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    data: bytes = onnx.ModelProto.SerializeToString(model)
    return data


@dataclass
class Walk:
    """The disk, the server, and the changes of both."""

    root: Path
    runtime: Runtime
    random: random.Random
    unloaded: set[str] = field(default_factory=set)
    done: list[str] = field(default_factory=list)
    plus: int = 100

    def step(self) -> None:
        change = self.random.choice(CHANGE_KINDS)
        # the current content determines which changes are possible
        with contextlib.suppress(OSError):
            change(self)
        if self.random.random() < 0.3:
            time.sleep(self.random.random() * 3 * POLL_SECONDS)

    def say(self, what: str) -> None:
        self.done.append(what)

    def model(self) -> Path:
        return self.root / self.random.choice(NAMES)

    def folder(self) -> Path:
        """The folder of a version's files, existing or not."""
        model = self.model()
        is_plain = self.random.random() < 0.3
        return model if is_plain else model / self.random.choice(VERSIONS)

    def write(self, path: Path, data: bytes) -> None:
        """Write a file like users do: in place, or by renaming."""
        path.parent.mkdir(parents=True, exist_ok=True)
        # opening a FIFO for writing waits for a reader, and the server never reads one
        if self.random.random() < 0.5 and not path.is_fifo():
            path.write_bytes(data)
        else:
            draft = path.with_name(f".{path.name}.draft")
            draft.write_bytes(data)
            draft.rename(path)

    def file(self, name: str) -> Path:
        """A file, usually an existing one, so that most changes affect a serving model."""
        there = sorted(self.root.rglob(name))
        if there and self.random.random() < 0.7:
            return self.random.choice(there)
        return self.folder() / name

    def put_onnx(self) -> None:
        self.plus += 1
        path = self.file("model.onnx")
        self.say(f"put {path.relative_to(self.root)} +{self.plus}")
        self.write(path, onnx_bytes(self.plus))

    def put_python(self) -> None:
        folder = self.folder()
        self.say(f"put {folder.relative_to(self.root)}/model.py")
        self.write(folder / "model.py", PYTHON.encode())

    def put_side_file(self) -> None:
        self.plus += 1
        folder = self.file("model.py").parent
        self.say(f"put {folder.relative_to(self.root)}/plus {self.plus}")
        self.write(folder / "plus", str(self.plus).encode())

    def corrupt(self) -> None:
        path = self.file(self.random.choice(("model.onnx", "model.py", "plus")))
        if path.exists():
            self.say(f"corrupt {path.relative_to(self.root)}")
            self.write(path, b"\xff nonsense")

    def configure(self) -> None:
        path = self.model() / "model.yaml"
        texts = self.random.choice((GOOD_CONFIGS, BAD_CONFIGS, VERSION_CONFIGS))
        text = self.random.choice(texts)
        self.say(f"configure {path.parent.name} {text[:40]!r}")
        self.write(path, text.encode())

    def put_odd_config(self) -> None:
        path = self.model() / "model.yaml"
        path.unlink(missing_ok=True)
        kind = self.random.choice(("FIFO", "folder", "loop", "nowhere"))
        self.say(f"{kind} as {path.parent.name}/model.yaml")
        match kind:
            case "FIFO":
                os.mkfifo(path)
            case "folder":
                path.mkdir()
            case "loop":
                path.symlink_to("model.yaml")
            case _:
                path.symlink_to("nowhere")

    def repair_config(self) -> None:
        path = self.model() / "model.yaml"
        self.say(f"remove {path.parent.name}/model.yaml")
        self.remove(path)

    def remove_some(self) -> None:
        kind = self.random.choice(("file", "version", "model"))
        path = {"file": self.folder() / "model.onnx", "version": self.folder()}.get(kind)
        path = path or self.model()
        self.say(f"remove {path.relative_to(self.root)}")
        self.remove(path)

    def rename(self) -> None:
        if self.random.random() < 0.5:
            before, after = self.model(), self.model()
        else:
            model = self.model()
            before, after = (model / self.random.choice(VERSIONS) for _ in range(2))
        if before != after and not after.exists():
            self.say(f"rename {before.relative_to(self.root)} {after.relative_to(self.root)}")
            before.rename(after)

    def noise(self) -> None:
        name = self.random.choice(
            ("lost+found", ".hidden", "empty", "__pycache__", os.fsdecode(b"not utf-8 \xff"))
        )
        self.say(f"noise {name!a}")
        (self.root / name).mkdir(exist_ok=True)
        if name.startswith("not"):
            (self.root / name / "model.onnx").write_bytes(onnx_bytes(0))
        (self.root / "notes.txt").write_text(self.done[-1][:5])

    def load(self) -> None:
        name = self.random.choice(NAMES)
        status = control(self.runtime, name, "load")
        self.say(f"load {name}: {status}")
        if status != 404:
            self.unloaded.discard(name)

    def unload(self) -> None:
        name = self.random.choice(NAMES)
        status = control(self.runtime, name, "unload")
        self.say(f"unload {name}: {status}")
        if status == 200:
            self.unloaded.add(name)

    @staticmethod
    def remove(path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


VERSION_CONFIGS = tuple(
    text
    for version in VERSIONS
    for text in (f"default_version: '{version}'", f"labels: {{stable: '{version}'}}")
)
CHANGE_KINDS: tuple[Callable[[Walk], None], ...] = (
    *[Walk.put_onnx] * 6,
    *[Walk.put_python] * 2,
    *[Walk.put_side_file] * 3,
    *[Walk.corrupt] * 2,
    *[Walk.configure] * 3,
    Walk.put_odd_config,
    *[Walk.repair_config] * 3,
    *[Walk.remove_some] * 2,
    *[Walk.rename] * 2,
    Walk.noise,
    *[Walk.load] * 2,
    Walk.unload,
)


def control(runtime: Runtime, name: str, action: str) -> int:
    return runtime.post(f"/v2/repository/models/{quote(name)}/{action}").status_code


def index(runtime: Runtime) -> dict[tuple[str, str], dict[str, str]]:
    answer = runtime.post("/v2/repository/index")
    assert answer.status_code == 200, answer.text
    return {(entry["name"], entry["version"]): entry for entry in answer.json()}


def answer_of(runtime: Runtime, path: str) -> object:
    """Metadata and identity of a model, as seen by a client."""
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [0]}]}
    metadata = runtime.get(path)
    infer = runtime.post(f"{path}/infer", json=body)
    if infer.status_code != 200:
        return metadata.status_code, infer.status_code
    return metadata.json(), infer.json()["model_version"], infer.json()["outputs"][0]["data"]


@dataclass(frozen=True)
class View:
    """The state of a server, as seen by clients."""

    states: dict[tuple[str, str], dict[str, str]]
    versions: dict[tuple[str, str], Any]
    defaults: dict[str, Any]
    labels: dict[str, Any]
    measured: set[tuple[str, str]]
    is_ready: bool


def view(runtime: Runtime) -> View:
    states = index(runtime)
    versions = {
        (name, version): answer_of(runtime, f"/v2/models/{quote(name)}/versions/{version}")
        for name, version in states
    }
    defaults = {name: answer_of(runtime, f"/v2/models/{quote(name)}") for name, _ in states}
    labels = {
        name: runtime.get(f"/v1/models/{quote(name)}/labels/stable").status_code
        for name, _ in states
    }
    metrics = runtime.get("/metrics")
    assert metrics.status_code == 200, metrics.text
    lines = [line for line in metrics.text.splitlines() if line.startswith("moorage_model_ready{")]
    measured = {(line.split('"')[1], line.split('"')[3]) for line in lines}
    is_ready = runtime.get("/v2/health/ready").status_code == 200
    return View(states, versions, defaults, labels, measured, is_ready)


def differences(old: View, fresh: View) -> list[str]:
    """The differences between a server that saw the changes and one that has just started."""
    if set(old.states) != set(fresh.states):
        return [f"models: {sorted(old.states)}, fresh: {sorted(fresh.states)}"]
    found: list[str] = []
    stale: set[str] = set()
    for key, entry in fresh.states.items():
        mine = old.states[key]
        if mine["state"] == "READY" and entry["state"] == "UNAVAILABLE":
            stale.add(key[0])
            if mine.get("reason") != entry["reason"]:
                found.append(f"{key} serves on: {mine}, fresh: {entry}")
        elif mine != entry:
            found.append(f"{key}: {mine}, fresh: {entry}")
    for name, version in fresh.states:
        if name in stale:
            continue
        pairs = [(old.versions[name, version], fresh.versions[name, version])]
        pairs += [(old.defaults[name], fresh.defaults[name])]
        pairs += [(old.labels[name], fresh.labels[name])]
        found += [f"{name} {version}: {a}, fresh: {b}" for a, b in pairs if a != b]
    if old.measured != set(old.states):
        found.append(f"metrics of {sorted(old.measured)}, models {sorted(old.states)}")
    if old.is_ready != fresh.is_ready and not stale:
        found.append(f"ready: {old.is_ready}, fresh: {fresh.is_ready}")
    return found


def fresh_view(walk: Walk) -> View:
    """The state of a new server for the current content of the disk."""
    options = f"--model-repository={walk.root}", "--repository-control=true", "--drain-seconds=0"
    with running(*options) as runtime:
        # no state shows that the repository was read, so the log of the last load is checked
        eventually(
            "the fresh server has loaded",
            lambda: (runtime.get("/v2/models/no-such-model").status_code, index(runtime)),
            lambda seen: seen[0] == 404 and all(e["state"] != "LOADING" for e in seen[1].values()),
            SETTLE_SECONDS,
        )
        for name in sorted(walk.unloaded & {name for name, _ in index(runtime)}):
            assert control(runtime, name, "unload") == 200
        return view(runtime)


@contextlib.contextmanager
def staying_live(runtime: Runtime) -> Iterator[list[str]]:
    """Continuously check that the server is live; the list contains the failures."""
    wrong: list[str] = []
    is_over = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=f"http://{runtime.http}", timeout=10) as client:
            while not is_over.wait(0.05):
                try:
                    status = client.get("/v2/health/live").status_code
                except httpx.HTTPError as error:
                    wrong.append(repr(error))
                else:
                    if status != 200:
                        wrong.append(str(status))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield wrong
    finally:
        is_over.set()
        asking.join()


@pytest.mark.parametrize("workers", [1, 2])
def test_after_random_changes_the_server_equals_a_fresh_one(tmp_path, workers):
    sys.stdout.write(f"REPOSITORY_SEED={SEED}\n")
    root = tmp_path / "models"
    root.mkdir()
    options = (
        f"--model-repository={root}",
        f"--poll-seconds={POLL_SECONDS}",
        "--repository-control=true",
        f"--workers={workers}",
    )
    rounds = ROUNDS if workers == 1 else max(1, ROUNDS // 3)
    with running(*options) as runtime, staying_live(runtime) as wrong:
        walk = Walk(root, runtime, random.Random(SEED + workers))
        for number in range(rounds):
            for _ in range(CHANGES):
                walk.step()
            fresh = fresh_view(walk)
            try:
                eventually(
                    "the server agrees with a fresh one",
                    lambda: differences(view(runtime), fresh),  # noqa: B023 - called at once
                    lambda found: not found,
                    SETTLE_SECONDS,
                )
            except (AssertionError, httpx.HTTPError) as error:
                story = "\n".join(walk.done)
                raise AssertionError(
                    f"REPOSITORY_SEED={SEED}, round {number}: {error}\n{story}\n{runtime.log}"
                ) from None
            assert wrong == [], f"REPOSITORY_SEED={SEED}: live checks failed"
            assert runtime.process.poll() is None
