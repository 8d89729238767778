"""The pause image as an archive, and the Debian mirror as apt's files name it."""

import hashlib
import io
import json
import tarfile

import pytest

from moorage_localcluster import images
from moorage_localcluster.layout import ClusterError
from moorage_localcluster.render import PAUSE_IMAGE

DEB822 = """# comment: with a colon
Types: deb
URIs: http://deb.debian.org/debian http://second.example/debian
Suites: bookworm bookworm-updates
Components: main contrib

Types: deb
URIs: http://deb.debian.org/debian-security
Suites: bookworm-security
Components: main
"""


@pytest.mark.parametrize(
    ("text", "mirror"),
    [
        (DEB822, "http://deb.debian.org/debian"),
        ("deb http://a.example/debian bookworm main\n", "http://a.example/debian"),
        (
            "deb [signed-by=/k.gpg] http://a.example/debian bookworm contrib main\n",
            "http://a.example/debian",
        ),
        (
            "deb [ arch=amd64 signed-by=/k.gpg ] https://a.example/d bookworm main\n",
            "https://a.example/d",
        ),
        ("deb-src http://a.example/debian bookworm main\n", ""),
        ("# deb http://a.example/debian bookworm main\n", ""),
        ("deb http://a.example/debian bookworm-updates main\n", ""),
        ("deb http://a.example/debian bookworm contrib\n", ""),
        ("deb http://a.example/debian trixie main\n", ""),
        ("Types: deb\nURIs: http://a.example\nSuites: trixie\nComponents: main\n", ""),
        (
            DEB822.replace("Types: deb", "Types: deb-src", 1).replace(
                "bookworm-sec", "bookworm sec"
            ),
            "http://deb.debian.org/debian-security",
        ),
        (DEB822.replace("Suites", "Enabled: no\nSuites"), ""),
        ("", ""),
    ],
)
def test_the_mirror_is_the_one_that_offers_the_suites_main_component(text, mirror):
    assert images.parse_mirror(text, "bookworm") == mirror


def test_no_mirror_is_an_error_that_names_the_suite(tmp_path):
    with pytest.raises(ClusterError, match="offers Debian bookworm"):
        images.debian_mirror(tmp_path)


def test_sources_files_are_found_in_both_places(tmp_path):
    (tmp_path / "sources.list").write_text("deb http://list.example/debian bookworm main\n")
    assert images.debian_mirror(tmp_path) == "http://list.example/debian"


def read_tar(data):
    """Files of a tar archive by name, each with its entry."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {one.name: (one, archive.extractfile(one).read()) for one in archive.getmembers()}


def test_the_pause_archive_is_an_image_of_one_layer_with_the_program():
    files = read_tar(images.pause_archive(b"\x7fELF pause", "arm64"))

    (manifest,) = json.loads(files["manifest.json"][1])
    assert manifest["RepoTags"] == [PAUSE_IMAGE]
    config = json.loads(files[manifest["Config"]][1])
    assert (config["os"], config["architecture"]) == ("linux", "arm64")
    assert config["config"] == {"Entrypoint": ["/pause"], "User": "65535:65535"}
    (name,) = manifest["Layers"]
    layer = files[name][1]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    ((entry, program),) = read_tar(layer).values()
    assert (entry.name, entry.mode, program) == ("pause", 0o755, b"\x7fELF pause")


def test_the_base_image_of_another_platform_has_its_own_name(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "x86_64")

    assert images.base_image() == images.base_image("linux/amd64") == images.BASE_IMAGE
    assert images.base_image("linux/arm64") == f"{images.BASE_IMAGE}-arm64"


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("example/server:1", "docker.io/example/server:1"),
        ("localhost/server:1", "localhost/server:1"),
        ("registry.example.com/server:1", "registry.example.com/server:1"),
        ("127.0.0.1:5000/team/server:1", "127.0.0.1:5000/team/server:1"),
        ("team/group/server:1", "docker.io/team/group/server:1"),
    ],
)
def test_a_name_without_a_registry_is_dockers(tag, expected):
    assert images.qualified(tag) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("localhost/server:1", True),
        ("localhost:5000/server:1", True),
        ("127.0.0.1:5000/team/server:1", True),
        ("[::1]:5000/server:1", True),
        ("registry.example.com:5000/server:1", False),
        ("docker.io/localhost/server:1", False),
    ],
)
def test_only_a_registry_on_loopback_goes_without_tls(name, expected):
    assert images.is_loopback(name) is expected
