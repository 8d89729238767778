"""Patterns of files, with stores that list: only the selected files are requested."""

import io
import tarfile

import pytest

from support.file_server import Route
from support.registry import Repository, layer

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(600)]


def test_only_selected_objects_are_downloaded(s3, fetch):
    s3.put("models/hub/config.json", b"{}")
    s3.put("models/hub/onnx/model.onnx", b"onnx")
    s3.put("models/hub/onnx/model_q4.onnx", b"quantized")
    s3.put("models/hub/model.safetensors", b"large")
    options = ("--include=*.json", "--include=onnx/*", "--exclude=*_q4.onnx")

    done = fetch("s3://models/hub", s3.secret, *options)

    assert done.files == {"config.json": b"{}", "onnx/model.onnx": b"onnx"}, done.log
    assert "in 2 files" in done.log


def test_other_patterns_fetch_the_model_again(s3, fetch):
    s3.put("models/again2/a.onnx", b"a")
    s3.put("models/again2/b.onnx", b"b")
    uri = "s3://models/again2"

    assert set(fetch(uri, s3.secret, "--include=a*").files) == {"a.onnx"}
    again = fetch(uri, s3.secret, "--include=a*")
    assert "already" in again.log
    assert set(fetch(uri, s3.secret, "--include=b*").files) == {"b.onnx"}
    assert set(fetch(uri, s3.secret).files) == {"a.onnx", "b.onnx"}


def test_patterns_that_select_nothing_are_reported(s3, fetch):
    s3.put("models/none/model.onnx", b"a")

    done = fetch("s3://models/none", s3.secret, "--include=*.safetensors")

    assert done.status == 1
    for words in ("s3://models/none", "include *.safetensors", "model.onnx"):
        assert words in done.message
    assert not (done.volume / "model").exists()


def test_the_content_of_an_archive_is_selected(secure, fetch, trusted):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name in ("a/model.onnx", "a/model.bin"):
            info = tarfile.TarInfo(name)
            info.size = 1
            archive.addfile(info, io.BytesIO(b"x"))
    secure.routes["/iris.tgz"] = Route(made.getvalue())

    done = fetch(f"{secure.url}/iris.tgz", trusted, "--include=a/*.onnx")

    assert done.files == {"a/model.onnx": b"x"}, done.log


def test_the_content_of_an_image_is_selected_below_its_path(registry, fetch):
    repository = Repository(registry, "models/selected")
    members = (("models/a/model.onnx", b"a"), ("models/a/model.bin", b"b"))
    repository.image("1", repository.blob(layer(*members)))

    done = fetch(f"{repository.uri}:1?path=models/a", {}, "--include=model.*", "--exclude=*.bin")

    assert done.files == {"models/a/model.onnx": b"a"}, done.log
