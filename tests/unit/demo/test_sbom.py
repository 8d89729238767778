"""An image archive is read layer over layer, and its packages become an SBOM."""

import io
import json
import tarfile

import pytest

from sbom import Package, bill, packages, read

STATUS = """\
Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u14

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1
"""
METADATA = "opt/moorage/lib/python3.11/site-packages/grpcio_tools-1.2.dist-info/METADATA"


def tar(files):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, body in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(body), 0o644
            archive.addfile(info, io.BytesIO(body))
    return made.getvalue()


@pytest.fixture
def image(tmp_path):
    """Writes an archive of these layers."""

    def write(*layers):
        names = [f"{number}/layer.tar" for number in range(len(layers))]
        manifest = [{"Config": "c.json", "Layers": names}]
        files = {
            "manifest.json": json.dumps(manifest).encode(),
            "c.json": json.dumps({"config": {"User": "65532:65532"}}).encode(),
            **{name: tar(layer) for name, layer in zip(names, layers, strict=True)},
        }
        path = tmp_path / "image.tar"
        path.write_bytes(tar(files))
        return path

    return write


def test_installed_packages_of_both_kinds_are_listed(image):
    metadata = b"Metadata-Version: 2.1\nName: grpcio_tools\nVersion: 1.2\n\nA text"

    found = packages(read(image({"var/lib/dpkg/status": STATUS.encode(), METADATA: metadata})))

    assert found == [
        Package("deb", "libc6", "2.36-9+deb12u14", "amd64"),
        Package("pypi", "grpcio_tools", "1.2"),
    ]
    assert [each.purl for each in found] == [
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u14?arch=amd64",
        "pkg:pypi/grpcio-tools@1.2",
    ]


def test_a_later_layer_changes_and_removes_files(image):
    contents = read(
        image(
            {"usr/bin/gcc": b"x", "usr/lib/a/b": b"x", "etc/c": b"x", "usr/bin/python3": b"x"},
            {"usr/bin/.wh.gcc": b"", "usr/lib/a/.wh..wh..opq": b"", "usr/lib/a/new": b""},
            {"./.wh.etc": b""},
        )
    )

    assert set(contents.modes) == {"usr/bin/python3", "usr/lib/a/new"}
    assert contents.config["User"] == "65532:65532"


def test_equal_images_have_equal_bills():
    found = [Package("pypi", "kopf", "1.0")]

    made = bill("r.example/team/moorage-operator", "0.1.0", found)

    assert made == bill("r.example/team/moorage-operator", "0.1.0", found)
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.5")
    assert [each["purl"] for each in made["components"]] == ["pkg:pypi/kopf@1.0"]
