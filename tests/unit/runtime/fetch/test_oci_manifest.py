"""OCI manifests: the image for this machine, and its layers as files."""

import pytest

from moorage_runtime.fetch.decide.entries import Algorithm, Digest, Entry
from moorage_runtime.fetch.decide.failures import BadSource, Corrupt, NotFound
from moorage_runtime.fetch.decide.oci_manifest import entries_of, image_of

ONE, TWO = "1" * 64, "2" * 64
BLOBS = "https://r/v2/n/blobs/"
TAR = "application/vnd.oci.image.layer.v1.tar+gzip"
TITLE = "org.opencontainers.image.title"
UNPACKED = "io.deis.oras.content.unpack"


def image(digest: object, system: str = "", machine: str = "") -> dict:
    platform = {"platform": {"os": system, "architecture": machine}} if system else {}
    return {"digest": digest, **platform}


def layer(digest: object = f"sha256:{ONE}", kind: str = TAR, **notes: str) -> dict:
    names = {"title": TITLE, "unpack": UNPACKED}
    annotations = {names[name]: value for name, value in notes.items()}
    return {"digest": digest, "mediaType": kind, "size": 5, "annotations": annotations}


def entries(*layers: dict, keep: str = "") -> list[Entry]:
    return list(entries_of({"layers": list(layers)}, BLOBS, keep, "oci://r/n:1"))


@pytest.mark.parametrize(
    ("machine", "architecture"),
    [("x86_64", "amd64"), ("aarch64", "arm64"), ("riscv64", "riscv64")],
)
def test_an_index_has_an_image_for_each_machine(machine, architecture):
    index = {
        "manifests": [
            image("sha256:windows", "windows", architecture),
            image("sha256:other", "linux", "s390x"),
            image(f"sha256:{ONE}", "linux", architecture),
            image(f"sha256:{TWO}", "linux", architecture),
        ]
    }

    assert image_of(index, machine, "oci://r/n:1") == Digest(Algorithm.SHA256, ONE)


def test_the_only_image_without_a_platform_is_for_every_machine():
    index = {"manifests": [image("sha256:other", "linux", "s390x"), image(f"sha256:{ONE}")]}

    assert image_of(index, "x86_64", "oci://r/n:1") == Digest(Algorithm.SHA256, ONE)


@pytest.mark.parametrize(
    "images",
    [[], [image("sha256:x", "linux", "s390x")], [image(f"sha256:{ONE}")] * 2, ["text"] * 2],
)
def test_an_index_without_an_image_for_this_machine_is_refused(images):
    with pytest.raises(NotFound) as caught:
        image_of({"manifests": images}, "x86_64", "oci://r/n:1")

    assert str(caught.value) == "oci://r/n:1 has no image for linux/amd64"


@pytest.mark.parametrize("document", [{}, {"layers": []}, {"manifests": "text"}])
def test_a_manifest_is_no_index(document):
    assert image_of(document, "x86_64", "what") is None


@pytest.mark.parametrize(
    "digest", [None, "", ONE, f"sha256:{ONE[:-1]}", f"sha512:{ONE}", f"sha256:{'A' * 64}"]
)
def test_an_invalid_digest_is_refused(digest):
    sentence = (
        f"oci://r/n:1: the digest {digest or ''!r} in the manifest is invalid: must be sha256"
    )
    for images in ([image(digest, "linux", "amd64")], [image(digest)]):
        with pytest.raises(Corrupt) as caught:
            image_of({"manifests": images}, "x86_64", "oci://r/n:1")
        assert str(caught.value) == sentence
    with pytest.raises(Corrupt) as caught:
        entries(layer(digest))
    assert str(caught.value) == sentence


def test_a_long_digest_is_cut_in_the_message():
    with pytest.raises(Corrupt, match=f"the digest '{'x' * 80}' in"):
        entries(layer("x" * 90))


@pytest.mark.parametrize("kind", [TAR, "application/vnd.docker.image.rootfs.diff.tar.gzip"])
def test_layers_are_unpacked_in_their_order(kind):
    digest = Digest(Algorithm.SHA256, TWO)

    first, second = entries(layer(kind=kind), layer(f"sha256:{TWO}", kind), keep="models")

    assert first.path == "layer-1"
    assert second == Entry(
        "layer-2", f"{BLOBS}sha256:{TWO}", 5, identity=TWO, digest=digest, layer=True
    )


def test_files_of_an_artifact_have_their_titles():
    digest = Digest(Algorithm.SHA256, ONE)

    (found,) = entries(layer(kind="application/octet-stream", title="a/b.onnx"))

    assert found == Entry("a/b.onnx", f"{BLOBS}sha256:{ONE}", 5, identity=ONE, digest=digest)


def test_a_folder_of_an_artifact_is_unpacked():
    (found,) = entries(layer(title="folder", unpack="true"), keep="folder/inside")
    assert (found.path, found.layer) == ("layer-1", True)

    (found,) = entries(layer(title="file.tar", unpack="false"))
    assert (found.path, found.layer) == ("file.tar", False)


def test_a_path_selects_files_of_an_artifact():
    titles = ("other", "models/a", "models", "models.txt", "models/b")
    layers = [layer(f"sha256:{ONE}", "text", title=title) for title in titles]

    found = entries(*layers, keep="models")

    assert [entry.path for entry in found] == ["models/a", "models", "models/b"]


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("application/vnd.oci.image.layer.v1.tar+zstd",) * 2,
        ("application/octet-stream",) * 2,
        ("", "without a type"),
    ],
)
def test_a_layer_that_is_not_a_tar_archive_is_refused(kind, shown):
    with pytest.raises(BadSource) as caught:
        entries(layer(), layer(kind=kind))

    assert str(caught.value) == (
        f"oci://r/n:1: layer 2 is {shown}: must be a tar archive, optionally with gzip"
    )


def test_a_manifest_without_layers_has_no_entries():
    assert list(entries_of({}, BLOBS, "", "what")) == []
