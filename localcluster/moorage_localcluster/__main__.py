"""The command line of the local cluster."""

import argparse
import json
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from moorage_localcluster import binaries, images, layout, packages, running
from moorage_localcluster.layout import ClusterError, Layout, Ports

EPILOG = """examples:
  cluster install                       packages and programs; only what is missing
  cluster up                            start, or mend what is not running
  eval "$(cluster env)"                 kubectl and helm address the cluster
  cluster load image.tar                an image archive into the node
  cluster down --purge                  everything goes away
  cluster control-plane up --dir DIR    only etcd and kube-apiserver, for tests
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
        default=Path("/var/lib/moorage-local"),
        metavar="DIR",
        help="where the node keeps everything (default %(default)s)",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    install = commands.add_parser("install", help="install packages and build programs")
    install.add_argument("--packages", action="store_true", help="only the Debian packages")
    install.add_argument("--binaries", action="store_true", help="only the programs")
    install.add_argument(
        "--control-plane", action="store_true", help="only what `control-plane up` needs"
    )
    commands.add_parser("up", help="start the cluster, or mend it")
    down = commands.add_parser("down", help="stop the cluster and remove its traces")
    down.add_argument("--purge", action="store_true", help="the image builder's storage as well")
    status = commands.add_parser("status", help="what runs; exits 1 unless all is well")
    status.add_argument("--json", action="store_true", help="for programs")
    load = commands.add_parser("load", help="load image archives into the node")
    load.add_argument("archives", nargs="+", type=Path, metavar="ARCHIVE")
    commands.add_parser("kubeconfig", help="print the kubeconfig's path")
    commands.add_parser("env", help="print shell lines that set KUBECONFIG and PATH")
    commands.add_parser("base-image", help=f"make {images.BASE_IMAGE} by debootstrap")
    build = commands.add_parser("build", help="build an image with buildah")
    build.add_argument("--file", type=Path, required=True, metavar="DOCKERFILE")
    build.add_argument("--context", type=Path, required=True, metavar="DIR")
    build.add_argument("--tag", required=True, metavar="NAME:TAG")
    build.add_argument("--build-arg", action="append", default=[], metavar="KEY=VALUE")
    build.add_argument("--output", type=Path, required=True, metavar="ARCHIVE")

    plane = commands.add_parser("control-plane", help="only etcd and kube-apiserver, on loopback")
    plane.add_argument("action", choices=["up", "down", "status"])
    plane.add_argument("--dir", type=Path, required=True, help="folder of this control plane")
    plane.add_argument(
        "--controllers", action="store_true", help="kube-controller-manager as well"
    )
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it worked."""
    options = make_parser().parse_args(words)
    try:
        return run(options)
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1


def run(options: argparse.Namespace) -> int:
    """Dispatch a parsed command line."""
    node = layout.node(options.state_dir.absolute())
    match options.command:
        case "install":
            install(options)
        case "up":
            up(node)
        case "down":
            require_root("down")
            running.down(node, purge=options.purge)
        case "status":
            return show_status(node, as_json=options.json)
        case "load":
            for archive in options.archives:
                images.load(node, archive)
        case "kubeconfig":
            print(node.kubeconfig)
        case "env":
            print(f"export KUBECONFIG={node.kubeconfig}")
            print(f'export PATH="{node.binaries}:$PATH"')
        case "control-plane":
            return control_plane(options)
        case _:
            make_image(node, options)
    return 0


def make_image(node: layout.Layout, options: argparse.Namespace) -> None:
    """The base image, or an image on it."""
    if options.command == "base-image":
        images.make_base(node)
    else:
        images.build(
            node, options.file, options.context, options.tag, options.build_arg, options.output
        )


def install(options: argparse.Namespace) -> None:
    """Packages, programs, or both."""
    full = not options.control_plane
    if options.packages or not options.binaries:
        packages.install(full=full)
    if options.binaries or not options.packages:
        binaries.build(full=full)


def require_root(command: str) -> None:
    """Fail early where only root can do it."""
    if os.geteuid() != 0:
        raise ClusterError(
            f"`cluster {command}` makes or removes mounts and bridges: run it as root"
        )


def up(node: Layout) -> None:
    """Start the node and say where everything is."""
    require_root("up")
    absent = packages.missing(full=True) + [
        name
        for group in binaries.GROUPS
        for name in group.names
        if not (node.binaries / name).exists()
    ]
    if absent:
        raise ClusterError(f"not installed yet: {', '.join(absent)}; run `cluster install` first")
    running.up(node)
    print(f"the cluster runs; kubeconfig {node.kubeconfig}, logs {node.logs}")


def show_status(node: Layout, *, as_json: bool) -> int:
    """Print what runs; 0 when all is well."""
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
    """Commands of a control plane alone."""
    folder: Path = options.dir.absolute()
    plane = layout.control_plane(folder, ports_of(folder))
    if options.action == "down":
        running.down(plane)
    elif options.action == "status":
        return show_status(plane, as_json=False)
    else:
        running.up(plane, controllers=options.controllers)
        print(plane.kubeconfig)
    return 0


def ports_of(folder: Path) -> Ports:
    """The ports of a control plane: chosen free once, then remembered in its folder."""
    file = folder / "ports.json"
    if file.exists():
        return Ports(**json.loads(file.read_text()))
    names = ("api", "etcd", "etcd_peer", "controller_manager")
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in names]
    chosen = {name: one.getsockname()[1] for name, one in zip(names, sockets, strict=True)}
    for one in sockets:
        one.close()
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(chosen))
    return Ports(**chosen)


if __name__ == "__main__":
    sys.exit(main())
