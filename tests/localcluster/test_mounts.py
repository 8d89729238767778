"""Which mounts are the cluster's, and in which order they have to go."""

from pathlib import Path

import pytest

from moorage_localcluster import mounts

MOUNTS = r"""/dev/vda / ext4 rw 0 0
overlay /run/node/containerd/a/rootfs overlay rw 0 0
shm /run/node/containerd/a/shm tmpfs rw 0 0
tmpfs /var/lib/node/kubelet/pods/1/volumes/x tmpfs rw 0 0
/dev/vda /var/lib/node/kubelet/pods/1/volumes/x/sub\040path ext4 rw 0 0
tmpfs /var/lib/node-other tmpfs rw 0 0
nsfs /run/node nsfs rw 0 0
nsfs /run/node nsfs rw 0 0
"""


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("/plain", "/plain"),
        (r"/two\040words", "/two words"),
        (r"/tab\011line\012end", "/tab\tline\nend"),
        (r"/back\134slash", "/back\\slash"),
        # an escaped backslash before digits that would be a code of their own
        (r"/not\134040blank", r"/not\040blank"),
    ],
)
def test_a_mount_point_is_read_as_the_kernel_writes_it(written, path):
    assert mounts.unescape_mount(written) == path


def test_mounts_in_and_below_the_folders_come_deepest_first():
    found = mounts.mounts_below(MOUNTS, [Path("/var/lib/node"), Path("/run/node")])

    assert found == [
        "/var/lib/node/kubelet/pods/1/volumes/x/sub path",
        "/var/lib/node/kubelet/pods/1/volumes/x",
        "/run/node/containerd/a/rootfs",
        "/run/node/containerd/a/shm",
        "/run/node",
        "/run/node",
    ]


@pytest.mark.parametrize("folder", ["/var/lib/nod", "/run/node/containerd/b", "/elsewhere"])
def test_a_folder_whose_name_only_begins_alike_has_no_mounts(folder):
    assert mounts.mounts_below(MOUNTS, [Path(folder)]) == []


def test_no_mounts_is_an_empty_list():
    assert mounts.mounts_below("", [Path("/")]) == []
