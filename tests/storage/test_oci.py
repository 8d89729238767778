"""A real registry: images and artifacts, by tag and by digest."""

import io
import tarfile

import httpx
import pytest

from support.registry import MANIFEST, Repository, layer

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(600)]

INDEX = "application/vnd.oci.image.index.v1+json"
TITLE = "org.opencontainers.image.title"


def test_layers_are_unpacked_in_order(registry, fetch):
    repository = Repository(registry, "models/iris")
    first = layer(("models/a.onnx", b"old"), ("models/gone.onnx", b"x"), ("bin/sh", None))
    second = layer(("models/a.onnx", b"new"), ("models/.wh.gone.onnx", b""))
    digest = repository.image("1", repository.blob(first), repository.blob(second))

    done = fetch(f"{repository.uri}:1")

    assert done.files == {"models/a.onnx": b"new"}, done.log
    assert f"at {digest}" in done.log
    assert "skipped 1 links and devices" in done.log


def test_hard_links_of_layers_are_the_same_file(registry, fetch):
    repository = Repository(registry, "models/links")
    first = layer(("models/a", b"a"), ("usr/b", b"b"))
    second = links(
        ("models/again", "/models/a"), ("models/b", "usr/b"), ("models/out", "../volume/parts/x")
    )
    third = layer(("models/a", b"new"))
    repository.image("1", *map(repository.blob, (first, second, third)))

    whole = fetch(f"{repository.uri}:1").files
    part = fetch(f"{repository.uri}:1?path=models")

    models = {"models/a": b"new", "models/again": b"a"}
    assert whole == {**models, "models/b": b"b", "usr/b": b"b"}
    assert part.files == models, part.log
    assert "skipped 2 links and devices" in part.log


def links(*pairs: tuple[str, str]) -> bytes:
    """A layer of hard links, name to earlier file."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, first in pairs:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.LNKTYPE, first
            archive.addfile(info)
    return made.getvalue()


def test_only_the_path_of_an_image_is_unpacked(registry, fetch):
    repository = Repository(registry, "models/path")
    repository.image("1", repository.blob(layer(("models/a", b"a"), ("usr/b", b"b"))))

    assert fetch(f"{repository.uri}:1?path=models").files == {"models/a": b"a"}


@pytest.mark.parametrize("path", ["absent", "model", "models/link"])
def test_a_path_without_files_is_reported(registry, fetch, path):
    repository = Repository(registry, "models/path")
    image = layer(("models/a", b"a"), ("models/link", None))
    repository.image("1", repository.blob(image))

    done = fetch(f"{repository.uri}:1?path={path}")

    assert done.message == (
        f"{repository.uri}:1?path={path} contains no files: check the path; symbolic links are "
        "left out"
    )
    assert not (done.volume / "model").exists()


def test_files_of_an_artifact_are_downloaded_by_digest(registry, fetch):
    repository = Repository(registry, "artifact")
    file = repository.blob(b"weights", "application/octet-stream", **{TITLE: "1/model.onnx"})
    digest = repository.image("latest", file)

    assert fetch(f"{repository.uri}@{digest}").files == {"1/model.onnx": b"weights"}


def test_the_image_for_this_machine_is_selected_from_an_index(registry, fetch):
    repository = Repository(registry, "index")
    images = []
    for architecture in ("amd64", "arm64", "s390x"):
        made = repository.blob(layer((architecture, b"x")))
        digest = repository.image(architecture, made)
        body = httpx.get(f"{repository.api}/manifests/{digest}", headers={"Accept": MANIFEST})
        platform = {"os": "linux", "architecture": architecture}
        entry = {"mediaType": MANIFEST, "digest": digest, "size": len(body.content)}
        images.append({**entry, "platform": platform})
    repository.manifest("1", {"mediaType": INDEX, "manifests": images})

    assert list(fetch(f"{repository.uri}:1").files) in (["amd64"], ["arm64"])


def test_a_later_layer_replaces_files_folders_and_links(registry, fetch):
    """`ln -sf new.onnx model.onnx` leaves no file model.onnx in the image."""
    repository = Repository(registry, "replaced")
    first = layer(("m/model.onnx", b"old"), ("m/new.onnx", b"new"), ("m/a/b", b"x"))
    second = layer(("m/model.onnx", None), ("m/a", b"a"))
    third = links(("m/new.onnx", "absent"))
    repository.image("2", *map(repository.blob, (first, second)))
    repository.image("3", *map(repository.blob, (first, second, third)))

    assert fetch(f"{repository.uri}:2").files == {"m/new.onnx": b"new", "m/a": b"a"}
    assert fetch(f"{repository.uri}:3").files == {"m/a": b"a"}


def test_files_beside_the_path_do_not_count(registry, fetch):
    """An image of a whole system has more files than any model."""
    repository = Repository(registry, "large")
    files = layer(("models/a", b"a"), *((f"usr/{number}", b"") for number in range(100_001)))
    repository.image("1", repository.blob(files))

    part = fetch(f"{repository.uri}:1?path=models")

    assert part.files == {"models/a": b"a"}, part.message
    whole = fetch(f"{repository.uri}:1")
    assert "has too many members: must have 100000 or fewer" in whole.message


def test_names_of_systems_are_valid(registry, fetch):
    """systemd has names with a backslash, and some builders write absolute names."""
    repository = Repository(registry, "names")
    unit = "usr/lib/systemd/system/system-systemd\\x2dcryptsetup.slice"
    first = layer((unit, b"u"), ("/models/a", b"a"), ("/models/gone", b"x"))
    second = layer(("/models/.wh.gone", b""))
    repository.image("1", *map(repository.blob, (first, second)))

    done = fetch(f"{repository.uri}:1")

    assert done.files == {unit: b"u", "models/a": b"a"}, done.message


@pytest.mark.parametrize(
    ("suffix", "sentence"),
    [
        ("models/absent:1", "does not exist"),
        ("models/absent@sha256:" + "0" * 64, "does not exist"),
    ],
)
def test_a_missing_object_is_reported(registry, fetch, suffix, sentence):
    uri = f"oci://127.0.0.1:{registry.port}/{suffix}"

    done = fetch(uri)

    assert done.status == 1
    assert uri in done.message
    assert sentence in done.message


def test_a_member_outside_of_the_layer_is_refused(registry, fetch):
    repository = Repository(registry, "evil")
    repository.image("1", repository.blob(layer(("../evil", b"x"))))

    assert "'../evil'" in fetch(f"{repository.uri}:1").message


@pytest.mark.parametrize("name", [".wh...", ".wh..", ".wh.", ".wh.../x", "models/.wh..."])
def test_a_whiteout_that_names_no_file_is_refused(registry, fetch, name):
    repository = Repository(registry, "whiteout")
    first, second = layer(("models/a.onnx", b"a")), layer((name, b""))
    repository.image("1", repository.blob(first), repository.blob(second))
    beside = fetch.volume / "beside"
    beside.write_bytes(b"stays")

    done = fetch(f"{repository.uri}:1")

    assert done.status == 1
    assert name.split("/x")[0] in done.message
    assert beside.read_bytes() == b"stays"
    assert (done.volume / "parts").is_dir()
    assert not (done.volume / "model").exists()


def test_a_whiteout_above_the_kept_path_removes_it(registry, fetch):
    repository = Repository(registry, "above")
    first, second = layer(("usr/models/a", b"a")), layer((".wh.usr", b""))
    third = layer(("usr/models/b", b"b"), (".wh..wh.plnk/1.2", b"x"))
    repository.image("1", *map(repository.blob, (first, second, third)))

    assert fetch(f"{repository.uri}:1?path=usr/models").files == {"usr/models/b": b"b"}
