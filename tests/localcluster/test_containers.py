"""What runc's files and command lines say of a container; and the places outside."""

import json
from pathlib import Path

import pytest

from moorage_localcluster import containers, layout
from moorage_localcluster.processes import Record

SOCKET = Path("/run/node/containerd.sock")


def test_the_first_process_of_a_container_has_its_id_and_start_time():
    state = {"id": "a", "init_process_pid": 4711, "init_process_start": 815}
    assert containers.first_process(state) == Record(4711, 815)


@pytest.mark.parametrize(
    ("state", "groups"),
    [
        (
            {"cgroup_paths": {"cpu": "/cg/cpu/k8s.io/a", "memory": "/cg/memory/k8s.io/a"}},
            ["/cg/cpu/k8s.io/a", "/cg/memory/k8s.io/a"],
        ),
        # one hierarchy for all controllers
        ({"cgroup_paths": {"": "/cg/k8s.io/a", "cpu": "/cg/k8s.io/a"}}, ["/cg/k8s.io/a"]),
        ({"cgroup_paths": None}, []),
        ({}, []),
    ],
)
def test_the_groups_of_a_container_are_named_once_each(state, groups):
    assert containers.groups(state) == [Path(group) for group in groups]


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        ("/bin/containerd-shim-runc-v2 -id a -address /run/node/containerd.sock", True),
        ("/bin/containerd-shim-runc-v2 -address /run/containerd/containerd.sock", False),
        ("ctr --address /run/node/containerd.sock images ls", False),
        ("vim /run/node/containerd.sock", False),
        ("", False),
    ],
)
def test_a_shim_is_ours_by_program_and_socket(line, ours):
    assert containers.is_shim(line.split(), SOCKET) is ours


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """Places like those outside of the cluster's folders, one of which is there before."""
    places = (tmp_path / "run-containerd", tmp_path / "kubelet")
    places[0].mkdir()
    monkeypatch.setattr(containers, "OUTSIDE", places)
    state = tmp_path / "state"
    state.mkdir()
    return layout.node(state)


def test_only_places_that_were_absent_before_are_removed(outside, tmp_path):
    containers.remember_outside(outside)
    (tmp_path / "kubelet" / "pods").mkdir(parents=True)

    containers.remove_outside(outside)

    assert (tmp_path / "run-containerd").exists()
    assert not (tmp_path / "kubelet").exists()


def test_a_second_start_does_not_take_its_own_places_for_others(outside, tmp_path):
    containers.remember_outside(outside)
    (tmp_path / "kubelet").mkdir()
    containers.remember_outside(outside)

    assert json.loads((outside.state / "outside.before").read_text()) == [
        str(tmp_path / "run-containerd")
    ]


def test_without_a_note_nothing_outside_is_removed(outside, tmp_path):
    (tmp_path / "kubelet").mkdir()

    containers.remove_outside(outside)

    assert (tmp_path / "run-containerd").exists()
    assert (tmp_path / "kubelet").exists()
