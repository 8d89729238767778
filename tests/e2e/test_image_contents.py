"""The contents of the two images that the demo built and that pods run."""

from pathlib import Path, PurePosixPath
from stat import S_ISGID, S_ISUID

import pytest

import sbom

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3000)]

ARCHIVES = Path(__file__).resolve().parents[2] / "build" / "demo"
# Package managers, compilers and downloaders, as file names.
UNWANTED = {
    *("apt", "apt-get", "apt-cache", "dpkg", "dpkg-deb", "pip", "pip3", "easy_install"),
    *("gcc", "g++", "cc", "c++", "clang", "ld", "as", "make"),
    *("curl", "wget", "git", "ssh"),
}


@pytest.fixture(params=["operator", "runtime"])
def contents(request, demo):
    del demo
    (archive,) = ARCHIVES.glob(f"{request.param}-*.tar")
    return request.param, sbom.read(archive)


def test_the_image_has_no_package_manager_no_compiler_and_no_downloader(contents):
    _, image = contents
    programs = [PurePosixPath(path) for path in image.modes if "bin" in PurePosixPath(path).parts]

    assert PurePosixPath("usr/bin/python3") in programs
    assert [path for path in programs if path.name in UNWANTED] == []
    assert [path for path in image.modes if "/pip/" in path or "/ensurepip/" in path] == []


def test_no_program_of_the_image_has_a_setuid_bit(contents):
    _, image = contents

    assert [path for path, mode in image.modes.items() if mode & (S_ISUID | S_ISGID)] == []


def test_the_image_runs_as_a_non_root_user(contents):
    name, image = contents

    assert image.config["User"] == "65532:65532"
    assert image.config["Entrypoint"] == [f"/opt/moorage/bin/moorage-{name}"]


def test_the_image_lists_its_packages_for_scanners(contents):
    name, image = contents
    found = {(each.kind, each.name) for each in sbom.packages(image)}

    assert ("pypi", f"moorage-{name}") in found
    assert ("deb", "libc6") in found
    assert not {("deb", name) for name in ("apt", "dpkg", "python3-pip")} & found


def test_each_image_has_only_its_own_packages(contents):
    name, image = contents
    found = {each.name for each in sbom.packages(image) if each.kind == "pypi"}

    assert ("onnxruntime" in found) is (name == "runtime")
    assert ("kopf" in found) is (name == "operator")
