"""Programs from Go modules: what is built, from which inputs, by which toolchain."""

import re
from dataclasses import replace

import pytest

from moorage_localcluster import binaries
from moorage_localcluster.layout import CONTAINERD_VERSION, KUBERNETES_VERSION


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go version go1.26.8 linux/amd64\n", (1, 26)),
        ("go version go1.25 linux/arm64", (1, 25)),
        ("go version devel go1.27-abc linux/amd64", (1, 27)),
        ("gcc version 12", (0, 0)),
        ("", (0, 0)),
    ],
)
def test_the_version_of_go_is_read_from_what_it_says(text, version):
    assert binaries.parse_go_version(text) == version


def test_every_program_is_named_once_and_by_what_go_names_it():
    names = [name for group in binaries.GROUPS for name in group.names]

    assert len(names) == len(set(names))
    assert {"kube-apiserver", "kubelet", "kubectl", "helm", "pause", "coredns"} <= set(names)
    assert {"containerd", "containerd-shim-runc-v2", "ctr"} <= set(names)


def test_the_api_server_alone_is_built_for_a_control_plane_alone(monkeypatch, tmp_path):
    monkeypatch.setattr(binaries, "BUILD_DIR", tmp_path)

    assert binaries.missing(full=False) == ["kube-apiserver"]
    assert set(binaries.missing(full=True)) == {
        name for group in binaries.GROUPS for name in group.names
    }
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kube-apiserver").write_text("")
    assert binaries.missing(full=False) == []


@pytest.mark.parametrize(
    ("program", "module", "version"),
    [
        ("kube-apiserver", "k8s.io/kubernetes", KUBERNETES_VERSION),
        ("kubelet", "k8s.io/kubernetes", KUBERNETES_VERSION),
        ("containerd", "github.com/containerd/containerd/v2", CONTAINERD_VERSION),
    ],
)
def test_the_version_that_is_stamped_is_the_one_that_go_mod_pins(program, module, version):
    (group,) = (each for each in binaries.GROUPS if program in each.names)
    pins = (group.module / "go.mod").read_text()

    assert re.search(rf"^\s*{module} {version}\b", pins, re.MULTILINE)
    assert version.removeprefix("v") in group.link_flags


def test_every_foreign_program_is_a_tool_line_of_its_module():
    for group in (*binaries.GROUPS, binaries.FAKE_NODES):
        tools = (group.module / "go.mod").read_text()
        for package in group.packages:
            assert package.startswith(".") or f"\t{package}\n" in tools


def test_the_hash_of_the_inputs_changes_with_a_file_and_its_name(tmp_path):
    group = replace(binaries.GROUPS[0], module=tmp_path)
    (tmp_path / "go.mod").write_text("module a")
    first = binaries.hash_inputs(group)
    assert binaries.hash_inputs(group) == first

    (tmp_path / "go.mod").write_text("module b")
    second = binaries.hash_inputs(group)
    (tmp_path / "go.mod").rename(tmp_path / "go.sum")

    assert len({first, second, binaries.hash_inputs(group)}) == 3


def test_the_hash_of_the_inputs_changes_with_how_the_programs_are_built():
    group = binaries.GROUPS[0]
    others = [replace(group, tags=("no_zfs",)), replace(group, link_flags="-s")]

    assert len({binaries.hash_inputs(each) for each in (group, *others)}) == 3
