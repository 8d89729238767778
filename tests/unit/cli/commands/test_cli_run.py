"""`moorage run` with the installed runtime, as a user runs it."""

import contextlib
import json
import os
import pickle
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from moorage_cli.commands.model_sources import find_models
from support.manifests import DIGITS
from support.waiting import eventually

MOORAGE = Path(sys.executable).parent / "moorage"
ANY_PORTS = ("--http-port=0", "--grpc-port=0")
CURL = re.compile(r"^ +(curl .*)$", re.MULTILINE)


@contextlib.contextmanager
def running(tmp_path, *arguments):
    """The command as a process, its output and its errors in files."""
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("wb") as output, err.open("wb") as errors:
        process = subprocess.Popen([MOORAGE, "run", *arguments], stdout=output, stderr=errors)
    try:
        yield process, out, err
    finally:
        process.terminate()
        process.wait(40)


def presented(process, out, err):
    """The output once it says how to end the server."""
    seen = eventually(
        "the model is presented",
        lambda: (out.read_text(), process.poll()),
        lambda seen: "Ctrl-C" in seen[0] or seen[1] is not None,
        60,
    )
    assert seen[1] is None, err.read_text()
    return seen[0]


def refused(*arguments):
    """The errors of a command that ends with status 1 by itself."""
    done = subprocess.run(
        [MOORAGE, "run", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    return done.stderr


def pickled(tmp_path):
    path = tmp_path / "flowers.pkl"
    estimator = LogisticRegression().fit(np.array([[0.0], [1.0]]), [0, 1])
    path.write_bytes(pickle.dumps(estimator))
    return path


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_printed_curl_is_answered_and_a_signal_ends_the_server(tmp_path, number):
    model = DIGITS / "model.onnx"
    with running(tmp_path, str(model), "--name=digits", *ANY_PORTS) as (process, out, err):
        text = presented(process, out, err)
        command = CURL.search(text)[1]
        answer = subprocess.run(
            ["sh", "-c", command], capture_output=True, text=True, check=True, timeout=30
        )

        process.send_signal(number)

        assert process.wait(40) == 0
    assert "digits is ready\n  inputs:  image FP32 [-1,8,8]\n" in text
    outputs = json.loads(answer.stdout)["outputs"]
    assert [each["name"] for each in outputs] == ["label", "probabilities"]
    assert "ended" in err.read_text()
    assert "Traceback" not in err.read_text()
    port = int(re.search(r"127\.0\.0\.1:(\d+)/", shlex.split(command)[2])[1])
    with pytest.raises(ConnectionError):
        socket.create_connection(("127.0.0.1", port), 5)


def test_a_folder_of_models_serves_each_and_says_which_one_fails(tmp_path):
    for name, content in (("good", (DIGITS / "model.onnx").read_bytes()), ("bad", b"no model")):
        (tmp_path / "models" / name).mkdir(parents=True)
        (tmp_path / "models" / name / "model.onnx").write_bytes(content)

    with running(tmp_path, str(tmp_path / "models"), *ANY_PORTS) as (process, out, err):
        text = presented(process, out, err)

    assert "bad is not served: model.onnx is not a valid ONNX model" in text
    assert "good is ready" in text


def test_a_pickle_is_refused_until_it_is_trusted(tmp_path):
    path = pickled(tmp_path)

    assert "flowers.pkl is a pickle, which can run any code" in refused(str(path), *ANY_PORTS)
    with running(tmp_path, str(path), "--trusted", *ANY_PORTS) as (process, out, err):
        assert "flowers is ready\n  inputs:  input-0 FP64 [-1,1]\n" in presented(process, out, err)


def test_a_file_of_another_kind_and_an_empty_folder_are_refused_with_what_is_expected(tmp_path):
    notes, empty = tmp_path / "notes.md", tmp_path / "empty"
    notes.write_text("text")
    empty.mkdir()

    assert "PATH: notes.md is not a model file: must be MLmodel, model.onnx" in refused(str(notes))
    assert "PATH: empty contains no model file: must contain MLmodel" in refused(str(empty))
    assert "does not exist: must be a model file or a folder" in refused(str(tmp_path / "no"))


def test_a_link_keeps_its_name_and_decides_the_format(tmp_path):
    (tmp_path / "blob").write_bytes((DIGITS / "model.onnx").read_bytes())
    link = tmp_path / "linked.onnx"
    link.symlink_to(tmp_path / "blob")

    (found,) = find_models(link)

    assert (found.name, found.format) == ("linked", "onnx")


def test_a_damaged_model_is_refused_with_the_servers_reason(tmp_path):
    (tmp_path / "x.onnx").write_bytes(b"no model")

    errors = refused(str(tmp_path / "x.onnx"), *ANY_PORTS)

    assert "moorage: x: x.onnx is not a valid ONNX model" in errors


def test_a_port_in_use_is_named_with_the_option_that_changes_it():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        errors = refused(str(DIGITS / "model.onnx"), f"--http-port={port}", "--grpc-port=0")

    assert f"http_port {port} cannot be opened" in errors
    assert "choose another one with --http-port" in errors


def test_without_the_server_the_message_has_the_command_that_installs_it(tmp_path):
    """A Python that has the tool and not the server, as after installing only the tool."""
    path = pickled(tmp_path)
    code = "from moorage_cli.__main__ import main; import sys; sys.exit(main())"
    link = tmp_path / "bin" / "python3"
    link.parent.mkdir()
    link.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.executable = {str(link)!r}; {code}",
         "run", str(path), "--trusted"],
        capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "PATH": str(link.parent)},
    )  # fmt: skip

    assert done.returncode == 1
    told = (
        "moorage-runtime is not installed: run pip install './runtime[tables]' in the repository"
    )
    assert told in done.stderr


def test_a_large_input_goes_into_a_file_that_is_removed_with_the_server(tmp_path):
    folder = tmp_path / "wide"
    folder.mkdir()
    (folder / "model.py").write_text(
        "from moorage_runtime.backends.python import PythonModel\n"
        "class Wide(PythonModel):\n"
        "    inputs = [('x', 'FP32', [-1, 3, 224, 224])]\n"
        "    outputs = [('y', 'FP32', [-1])]\n"
        "    def predict(self, inputs, request):\n"
        "        return {'y': inputs['x'].sum(axis=(1, 2, 3))}\n"
    )
    with running(tmp_path, str(folder), *ANY_PORTS) as (process, out, err):
        command = CURL.search(presented(process, out, err))[1]
        answer = subprocess.run(
            ["sh", "-c", command], capture_output=True, text=True, check=True, timeout=30
        )
        file = Path(shlex.split(command)[-1].removeprefix("@"))

        assert file.exists()

    assert json.loads(answer.stdout)["outputs"][0]["data"] == [75264.0]
    assert not file.exists()
