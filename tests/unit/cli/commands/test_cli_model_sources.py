"""Folders that cannot be uploaded as they are, and URIs that the API refuses."""

import os
from pathlib import Path

import pytest

from moorage_cli import __main__ as program
from moorage_cli.commands.model_sources import (
    files_of,
    find_models,
    measured,
    unchanged_content,
)
from moorage_cli.printing.failures import Failure


def test_a_path_that_is_no_model_is_refused_with_the_reason(tmp_path: Path) -> None:
    loop, pipe = tmp_path / "loop", tmp_path / "pipe"
    loop.symlink_to(loop)
    os.mkfifo(pipe)
    reasons = {
        tmp_path / "missing": "does not exist: must be a model file or a folder",
        loop: "cannot be read: too many levels of symbolic links",
        pipe: "is neither a file nor a folder",
        Path("/dev/null"): "is neither a file nor a folder",
        tmp_path / ("x" * 5000): "cannot be read: file name too long",
        Path("a\0b"): "cannot be read: embedded null byte",
    }
    for path, reason in reasons.items():
        with pytest.raises(Failure) as refused:
            find_models(path)
        assert str(refused.value) == f"PATH: {path} {reason}"


def test_a_pipe_in_a_folder_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    (path,) = files_of(tmp_path).values()
    with pytest.raises(Failure, match="pipe is not a file: remove it"):
        measured(path)


def test_a_link_to_a_folder_that_contains_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "up").symlink_to(tmp_path)

    with pytest.raises(Failure, match="up is a link to a folder that contains it"):
        files_of(tmp_path)


def test_a_link_to_another_folder_is_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "model.onnx").write_bytes(b"x")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "1").symlink_to(other)

    assert list(files_of(tmp_path / "models")) == ["1/model.onnx"]


def test_a_file_that_changes_after_it_was_measured_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"before")
    found = measured(path)
    assert unchanged_content(path, found) == b"before"

    path.write_bytes(b"after!")

    with pytest.raises(Failure, match="has changed while it was read: run the command again"):
        unchanged_content(path, found)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["s3://"], "PATH|URI: must be s3://BUCKET/PATH"),
        (["s3://Bad/x"], "PATH|URI: must be s3://BUCKET/PATH"),
        (["oci://x"], "PATH|URI: must be oci://REGISTRY/NAME:TAG"),
        (["foo://x"], "PATH|URI: scheme foo:// is not supported"),
        (["s3://models/x", "--claim=c"], "--claim: requires a local path, which is uploaded"),
        (["s3://models/x", "--size=1Gi"], "--size: requires a local path, which is uploaded"),
        (["s3://models/x", "--image=i"], "--image: requires a local path, which is uploaded"),
        (["pvc://c/x", "--credentials=s"], "--credentials: requires the URI of a store"),
        (["configmap://c", "--credentials=s"], "--credentials: requires the URI of a store"),
    ],
)
def test_a_uri_that_the_api_refuses_is_refused_before_any_request(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(["deploy", *words, "--name=a", "--kubeconfig=/missing"]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"moorage: {message}")
