"""The command line of the local cluster."""

import argparse
import json
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from moorage_localcluster import (
    binaries,
    images,
    layout,
    ownership,
    packages,
    platforms,
    ports,
    running,
)
from moorage_localcluster.layout import ClusterError, Layout, Ports

PUBLIC = 0o022
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
# The exit status of a program that Ctrl-C ended.
INTERRUPTED = 130
EPILOG = """examples:
  cluster install                       install missing packages and programs
  cluster up                            start or repair the cluster
  eval "$(cluster env)"                 point kubectl and helm at the cluster
  cluster load image.tar                load an image archive into the node
  cluster down --purge                  remove everything
  cluster control-plane up --dir DIR    start only etcd and kube-apiserver, for tests
"""


def make_parser() -> argparse.ArgumentParser:
    """The parser of every command."""
    parser = argparse.ArgumentParser(
        prog="cluster",
        description="A real single-node Kubernetes cluster from Go modules and Debian packages.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--state-dir",
        type=Path,
        default=layout.DEFAULT_STATE,
        metavar="DIR",
        help="folder of the node (default %(default)s)",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    install = commands.add_parser("install", help="install packages and build programs")
    install.add_argument("--packages", action="store_true", help="only the Debian packages")
    install.add_argument("--binaries", action="store_true", help="only the programs")
    install.add_argument(
        "--control-plane", action="store_true", help="only what `control-plane up` needs"
    )
    install.add_argument(
        "--fake-nodes", action="store_true", help="also build kwok, for the scale benchmark"
    )
    commands.add_parser("up", help="start or repair the cluster")
    down = commands.add_parser("down", help="stop the cluster and remove its files")
    down.add_argument(
        "--purge", action="store_true", help="also remove the storage of the image builder"
    )
    status = commands.add_parser("status", help="show what runs; exits with 1 unless all runs")
    status.add_argument("--json", action="store_true", help="print JSON")
    load = commands.add_parser("load", help="load image archives into the node")
    load.add_argument("archives", nargs="+", type=Path, metavar="ARCHIVE")
    commands.add_parser("kubeconfig", help="print the kubeconfig's path")
    commands.add_parser("env", help="print shell lines that set KUBECONFIG and PATH")
    base = commands.add_parser("base-image", help=f"build {images.BASE_IMAGE} with debootstrap")
    build = commands.add_parser("build", help="build an image with buildah")
    build.add_argument("--file", type=Path, required=True, metavar="DOCKERFILE")
    build.add_argument("--context", type=Path, required=True, metavar="DIR")
    build.add_argument("--tag", required=True, metavar="NAME:TAG")
    build.add_argument("--build-arg", action="append", default=[], metavar="KEY=VALUE")
    build.add_argument("--output", type=Path, required=True, metavar="ARCHIVE")
    for each in (base, build):
        each.add_argument(
            "--platform",
            choices=[*platforms.PLATFORMS],
            default="",
            help="for another processor than this machine's, with QEMU",
        )

    push = commands.add_parser("push", help="push a built image to its registry")
    push.add_argument("--tag", required=True, metavar="NAME:TAG")
    push.add_argument(
        "--part",
        action="append",
        default=[],
        metavar="NAME:TAG",
        help="a built image for one platform; the pushed name is that of an index of all parts",
    )
    push.add_argument("--digest-file", type=Path, required=True, metavar="FILE")

    plane = commands.add_parser(
        "control-plane", help="run only etcd and kube-apiserver, on loopback"
    )
    plane.add_argument("action", choices=["up", "down", "status"])
    plane.add_argument("--dir", type=Path, required=True, help="folder of this control plane")
    plane.add_argument(
        "--controllers",
        action="store_true",
        help="also start kube-controller-manager, which needs the full install",
    )
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; 0 on success."""
    options = make_parser().parse_args(words)
    # Pods read files that the node's programs write, such as resolv.conf, as other users.
    os.umask(PUBLIC)
    # Debian's `su` keeps the user's PATH, which lacks the folders of nft and of what dpkg calls.
    os.environ["PATH"] = ":".join([os.environ.get("PATH", os.defpath), *SYSTEM_FOLDERS])
    try:
        return run(options)
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("cluster: interrupted; run the same command again to resume", file=sys.stderr)
        return INTERRUPTED


def run(options: argparse.Namespace) -> int:
    """Dispatch a parsed command line."""
    node = layout.node(options.state_dir.absolute())
    match options.command:
        case "install":
            install(options)
        case "up":
            up(node)
        case "down":
            down(node, purge=options.purge)
        case "status":
            return show_status(node, as_json=options.json)
        case "load":
            load(node, options.archives)
        case "kubeconfig":
            print(node.kubeconfig)
        case "env":
            print(f"export KUBECONFIG={shlex.quote(str(node.kubeconfig))}")
            print(f'export PATH={shlex.quote(str(node.binaries))}:"$PATH"')
        case "control-plane":
            return control_plane(options)
        case _:
            make_image(node, options)
    return 0


def make_image(node: layout.Layout, options: argparse.Namespace) -> None:
    """Build the base image, build an image, or push an image."""
    if options.command == "base-image":
        print(images.make_base(node, options.platform))
    elif options.command == "push":
        images.push(node, options.tag, options.digest_file, options.part)
    else:
        wanted = images.Build(
            options.file,
            options.context,
            options.tag,
            options.build_arg,
            options.output,
            options.platform,
        )
        images.build(node, wanted)


def install(options: argparse.Namespace) -> None:
    """Install packages, programs, or both."""
    full = not options.control_plane
    if options.packages or not options.binaries:
        packages.install(full=full)
    if options.binaries or not options.packages:
        binaries.build(full=full, fake_nodes=options.fake_nodes)


def require_root(command: str) -> None:
    """Fail early if the command needs root."""
    if os.geteuid() != 0:
        raise ClusterError(
            f"`cluster {command}` needs root to create or remove mounts and bridges"
        )


def up(node: Layout) -> None:
    """Start the node and print the paths of its files."""
    require_root("up")
    absent = packages.missing(full=True) + binaries.missing(full=True)
    if absent:
        raise ClusterError(f"not installed: {', '.join(absent)}; run `cluster install` first")
    with ownership.locked(node.state):
        running.up(node)
    print(f"the cluster is running; kubeconfig {node.kubeconfig}, logs {node.logs}")


def down(node: Layout, *, purge: bool) -> None:
    """Stop the node; changes nothing if none was started."""
    require_root("down")
    # A build that ended after an earlier `down` may have left only the run folder.
    if not (node.state.exists() or node.run.exists()):
        return
    with ownership.locked(node.state):
        running.down(node, purge=purge)


def load(node: Layout, archives: Sequence[Path]) -> None:
    """Load image archives into the running node."""
    require_root("load")
    if not node.containerd_socket.exists():
        raise ClusterError("the cluster is not running: start it with `cluster up`")
    for archive in archives:
        images.load(node, archive)


def show_status(node: Layout, *, as_json: bool) -> int:
    """Print which components run; 0 if all do."""
    state = running.status(node)
    if as_json:
        print(json.dumps(state))
    else:
        parts = state["processes"]
        assert isinstance(parts, dict)  # noqa: S101 - status builds it so
        for name, alive in parts.items():
            print(f"{name:26}{'running' if alive else 'not running'}")
        print(f"{'healthy' if state['healthy'] else 'not healthy'}; logs in {node.logs}")
    return 0 if state["healthy"] else 1


def control_plane(options: argparse.Namespace) -> int:
    """Commands of a control plane without a node; its folder keeps its ports."""
    folder: Path = options.dir.absolute()
    if options.action == "status":
        plane = layout.control_plane(folder, ownership.read_mark(folder) or Ports())
        return show_status(plane, as_json=False)
    if options.action == "down":
        if folder.exists():
            with ownership.locked(folder):
                known = ownership.read_mark(folder) or Ports()
                running.down(layout.control_plane(folder, known))
        return 0
    absent = packages.missing(full=False) + binaries.missing(full=options.controllers)
    if absent:
        less = "" if options.controllers else " --control-plane"
        raise ClusterError(
            f"not installed: {', '.join(absent)}; run `cluster install{less}` first"
        )
    with ownership.locked(folder):
        known = ownership.read_mark(folder)
        with nullcontext(known) if known else ports.choose() as chosen:
            plane = layout.control_plane(folder, chosen)
            running.up(plane, controllers=options.controllers)
    print(plane.kubeconfig)
    return 0


if __name__ == "__main__":
    sys.exit(main())
