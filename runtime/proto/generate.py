# ruff: noqa: INP001 - a script beside its input, no module of a package
"""Make the message classes from the .proto files beside this one, for each of the programs.

    python runtime/proto/generate.py [--check]

The classes go to a descriptor pool of their own. Protobuf knows each message name once in a pool,
and a model's Python code, or a test, that imports another client of the same protocol would
otherwise end the process with a conflict.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from grpc_tools import protoc

PROTO: Final = Path(__file__).resolve().parent
ROOT: Final = PROTO.parents[1]
_SHARED_POOL: Final = "_descriptor_pool.Default()"
_OWN_POOL: Final = "_descriptor_pool.DescriptorPool()"
_PACKAGE: Final = (
    '"""Message classes made by ``runtime/proto/generate.py``; never edited by hand."""\n'
)


class Package(NamedTuple):
    """Where message classes go, and of which .proto files."""

    folder: Path
    protocols: tuple[str, ...]


RUNTIME: Final = Package(
    ROOT / "runtime" / "src" / "moorage_runtime" / "_generated",
    tuple(sorted(path.stem for path in PROTO.glob("*.proto") if path.stem != "repository")),
)
# What the operator asks servers in; grpc.health.v1 is the kubelet's. The repository's index is a
# question that the runtime answers over HTTP alone.
OPERATOR: Final = Package(
    ROOT / "operator" / "src" / "moorage_operator" / "_generated", ("grps", "oip", "repository")
)
# What `moorage infer` sends over gRPC.
CLI: Final = Package(ROOT / "cli" / "src" / "moorage_cli" / "_generated", ("grps", "oip"))
PACKAGES: Final = (RUNTIME, OPERATOR, CLI)


def generate(protocols: tuple[str, ...], target: Path) -> None:
    """Write ``*_pb2.py`` and ``*_pb2.pyi`` of these protocols to the folder.

    Raises:
        RuntimeError: A file does not compile, or the compiler's output has another form than
            the one that is known here.
    """
    files = [f"{name}.proto" for name in protocols]
    arguments = [f"-I{PROTO}", f"--python_out={target}", f"--pyi_out={target}", *files]
    if protoc.main(["protoc", *arguments]):
        raise RuntimeError("the .proto files do not compile")
    for module in (target / f"{name}_pb2.py" for name in protocols):
        text = module.read_text()
        if text.count(_SHARED_POOL) != 1:
            raise RuntimeError(f"{module.name}: expected {_SHARED_POOL} once")
        module.write_text(text.replace(_SHARED_POOL, _OWN_POOL))
    (target / "__init__.py").write_text(_PACKAGE)


def outdated(package: Package = RUNTIME) -> list[str]:
    """Names of a package's files that differ from what the .proto files give now."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder)
        generate(package.protocols, fresh)
        wanted = {path.name: path.read_bytes() for path in fresh.iterdir()}
    present = {path.name: path.read_bytes() for path in package.folder.glob("*.py*")}
    return sorted(
        name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name)
    )


def main() -> int:
    """Run the command; the exit status."""
    parser = argparse.ArgumentParser(description="Make the protobuf message classes.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail when files are out of date"
    )
    if parser.parse_args().check:
        names = [name for package in PACKAGES for name in outdated(package)]
        if names:
            sys.stderr.write(f"out of date: {', '.join(names)}; run {Path(__file__).name}\n")
        return 1 if names else 0
    for package in PACKAGES:
        package.folder.mkdir(exist_ok=True)
        generate(package.protocols, package.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
