"""A running server with a repository that has problems."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from support.runtime import ROOT, Runtime, running
from support.waiting import eventually

pytestmark = pytest.mark.conformance

MODEL = ROOT / "examples" / "01-digits" / "model.onnx"
POLLING = ("--poll-seconds=0.1", "--repository-control=true")
RUNTIME = Path(sys.executable).parent / "moorage-runtime"
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
WITHOUT = "-dac_override,-dac_read_search"
# Root that may not read the files of others, like the user of a pod.
UNPRIVILEGED = ("setpriv", f"--inh-caps={WITHOUT}", f"--bounding-set={WITHOUT}", "--")
SLOW = """\
import time

from moorage_runtime.backends.python import PythonModel


class Slow(PythonModel):
    inputs = [("x", "FP32", [1])]
    outputs = [("x", "FP32", [1])]

    def load(self, context):
        (context.folder / "begun").touch()
        while not (context.folder / "go").exists():
            time.sleep(0.01)

    def predict(self, inputs, request):
        return {"x": inputs["x"]}
"""


def put(root: Path, name: str) -> Path:
    (root / name).mkdir(parents=True)
    shutil.copy(MODEL, root / name / "model.onnx")
    return root / name


def ready(runtime: Runtime, name: str = "") -> int:
    return runtime.get(f"/v2/models/{name}/ready" if name else "/v2/health/ready").status_code


def becomes(runtime: Runtime, name: str, status: int) -> None:
    eventually(
        f"{name or 'the server'}: {status}",
        lambda: ready(runtime, name),
        {status}.__contains__,
        20,
    )


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    "text", ["default_version: 2026-02-30", "[" * 2000, "a: &a [*a]", "a\0b", None]
)
def test_an_invalid_model_yaml_affects_only_its_model(tmp_path, text, workers):
    config = put(tmp_path, "a") / "model.yaml"
    if text is None:
        os.mkfifo(config)
    else:
        config.write_text(text)
    put(tmp_path, "b")
    with running(f"--model-repository={tmp_path}", f"--workers={workers}", *POLLING) as runtime:
        becomes(runtime, "b", 200)
        becomes(runtime, "", 200)
        answer = runtime.post("/v2/repository/models/a/load")
        assert answer.status_code >= 400
        assert "model.yaml" in answer.json()["error"]
        assert "model.yaml" in runtime.get("/v2/models/a/ready").text

        put(tmp_path, "c")
        becomes(runtime, "c", 200)
        config.unlink()
        becomes(runtime, "a", 200)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), 200),
        (("--ready-when=all",), 503),
        (("--ready-when=listed", "--ready-models=good"), 200),
        (("--ready-when=listed", "--ready-models=good,bad"), 503),
    ],
)
def test_the_readiness_of_the_server_follows_its_policy(tmp_path, options, expected):
    put(tmp_path, "good")
    (put(tmp_path, "bad") / "model.onnx").write_bytes(b"x")
    with running(f"--model-repository={tmp_path}", *options) as runtime:
        becomes(runtime, "good", 200)
        eventually(
            "the bad one has failed",
            lambda: runtime.get("/v2/models/bad/ready").text,
            lambda text: "not a valid ONNX model" in text,
            20,
        )
        assert ready(runtime) == expected
        assert runtime.get("/grps/v1/health/ready").status_code == expected


def test_a_server_whose_only_model_failed_is_not_ready(tmp_path):
    """Started like by the operator: the whole folder is one model with a given name."""
    (tmp_path / "model.onnx").write_bytes(b"x")
    with running(f"--model-repository={tmp_path}", "--model-name=m") as runtime:
        eventually(
            "failed", lambda: runtime.get("/v2/models/m/ready").text, lambda t: "not a" in t, 20
        )
        assert ready(runtime) == 503


@AS_ROOT
def test_a_volume_with_folders_of_another_user_is_served(tmp_path):
    """Like ``lost+found`` of a new ext4 volume, which only root can read."""
    put(tmp_path, "a")
    for name in ("lost+found", "closed"):
        (tmp_path / name).mkdir(mode=0o700)
        os.chown(tmp_path / name, 65532, 65532)
    with running(f"--model-repository={tmp_path}", *POLLING, wrapper=UNPRIVILEGED) as runtime:
        becomes(runtime, "a", 200)
        becomes(runtime, "", 200)
        assert "lost+found (" in runtime.log
        assert "Permission denied" in runtime.get("/v2/models/closed/ready").text


@AS_ROOT
def test_a_file_that_the_server_may_not_read_is_not_called_invalid(tmp_path):
    put(tmp_path, "a")
    file = tmp_path / "a" / "model.onnx"
    file.chmod(0o600)
    os.chown(file, 65532, 65532)
    with running(f"--model-repository={tmp_path}", wrapper=UNPRIVILEGED) as runtime:
        becomes(runtime, "a", 503)
        said = eventually(
            "failed", lambda: runtime.get("/v2/models/a/ready").text, lambda t: "cannot" in t, 20
        )
        who = f"the server runs as user 0 and group {os.getegid()}"
        assert f"model.onnx cannot be read: Permission denied: {who}" in said


@AS_ROOT
def test_a_path_that_the_server_may_not_reach_ends_it_with_a_message(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    os.chown(closed, 65532, 65532)
    command = [*UNPRIVILEGED, RUNTIME, f"--model-repository={closed / 'iris'}"]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 2
    assert f"'{closed / 'iris'}' cannot be read: Permission denied" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_names_that_are_not_utf_8_do_not_break_metrics_or_workers(tmp_path):
    put(tmp_path, "a")
    put(tmp_path, os.fsdecode(b"bad\xff"))
    with running(f"--model-repository={tmp_path}", "--workers=2") as runtime:
        becomes(runtime, "", 200)
        metrics = runtime.get("/metrics")
        assert metrics.status_code == 200
        assert 'moorage_model_ready{model="a",version="1"} 1.0' in metrics.text
        assert "not UTF-8" in runtime.log


def in_background(call: Callable[[], httpx.Response]) -> tuple[threading.Thread, list[int]]:
    statuses: list[int] = []
    thread = threading.Thread(target=lambda: statuses.append(call().status_code))
    thread.start()
    return thread, statuses


@pytest.mark.parametrize("workers", [1, 2])
def test_the_last_load_or_unload_request_counts(tmp_path, workers):
    folder = tmp_path / "slow"
    folder.mkdir()
    (folder / "model.py").write_text(SLOW)
    put(tmp_path, "a")
    options = f"--model-repository={tmp_path}", "--repository-control=true"
    with running(*options, f"--workers={workers}") as runtime:
        becomes(runtime, "a", 200)
        eventually("it loads", (folder / "begun").exists, bool, 20)

        assert runtime.post("/v2/repository/models/slow/unload").status_code == 200
        thread, statuses = in_background(lambda: runtime.post("/v2/repository/models/slow/load"))
        eventually(
            "it loads again",
            lambda: runtime.get("/v2/models/slow/ready").text,
            lambda text: "unloaded" not in text,
            20,
        )
        (folder / "go").touch()
        thread.join(30)

        assert statuses == [200]
        assert ready(runtime, "slow") == 200


def test_a_replaced_model_is_freed(tmp_path):
    put(tmp_path, "digits")
    with running(f"--model-repository={tmp_path}", *POLLING, "--threads=2") as runtime:
        becomes(runtime, "digits", 200)
        tasks = Path(f"/proc/{runtime.process.pid}/task")

        # each session of ONNX Runtime has a thread, which ends with the session
        before = len(list(tasks.iterdir()))
        for _ in range(20):
            assert runtime.post("/v2/repository/models/digits/load").status_code == 200

        eventually(
            "as many threads as before",
            lambda: len(list(tasks.iterdir())),
            lambda count: count <= before + 3,
            10,
        )
