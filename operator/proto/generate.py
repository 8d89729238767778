# ruff: noqa: INP001 - a script, no module of a package
"""Make the operator's protobuf message classes from the runtime's .proto files.

    python operator/proto/generate.py [--check]

One source of the protocols for both programs. The classes go to a descriptor pool of their own:
protobuf knows each message name once in a pool, and a test or tool that loads another client of
the same protocol beside the operator would otherwise end with a conflict.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final

from grpc_tools import protoc

OPERATOR: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = OPERATOR.parent / "runtime" / "proto"
GENERATED: Final = OPERATOR / "src" / "moorage_operator" / "_generated"
PROTOCOLS: Final = ("oip", "grps")
_SHARED_POOL: Final = "_descriptor_pool.Default()"
_OWN_POOL: Final = "_descriptor_pool.DescriptorPool()"
_PACKAGE: Final = (
    '"""Message classes made by ``operator/proto/generate.py``; never edited by hand."""\n'
)


def generate(target: Path) -> None:
    """Write the message classes to the folder.

    Raises:
        RuntimeError: A file does not compile, or the compiler's output has another form than
            the one that is known here.
    """
    sources = [f"{name}.proto" for name in PROTOCOLS]
    arguments = [f"-I{SOURCE}", f"--python_out={target}", f"--pyi_out={target}", *sources]
    if protoc.main(["protoc", *arguments]):
        raise RuntimeError(f"{', '.join(sources)}: not all compile")
    for name in PROTOCOLS:
        module = target / f"{name}_pb2.py"
        text = module.read_text()
        if text.count(_SHARED_POOL) != 1:
            raise RuntimeError(f"{module.name}: expected {_SHARED_POOL} once")
        module.write_text(text.replace(_SHARED_POOL, _OWN_POOL))
    (target / "__init__.py").write_text(_PACKAGE)


def outdated() -> list[str]:
    """Names of generated files that differ from what the .proto files give now."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder)
        generate(fresh)
        wanted = {path.name: path.read_bytes() for path in fresh.iterdir()}
    present = {path.name: path.read_bytes() for path in GENERATED.glob("*.py*")}
    return sorted(
        name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name)
    )


def main() -> int:
    """Run the command; the exit status."""
    parser = argparse.ArgumentParser(description="Make the operator's protobuf message classes.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail when files are out of date"
    )
    if parser.parse_args().check:
        names = outdated()
        if names:
            sys.stderr.write(f"out of date: {', '.join(names)}; run {Path(__file__).name}\n")
        return 1 if names else 0
    GENERATED.mkdir(exist_ok=True)
    generate(GENERATED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
