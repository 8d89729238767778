"""The message classes of each program, made from the .proto files in runtime/proto.

The classes go to a descriptor pool of their own. Protobuf knows each message name once in a pool,
and a model's Python code, or a test, that imports another client of the same protocol would
otherwise end the process with a conflict.
"""

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from grpc_tools import protoc

PROTO: Final = "runtime/proto"
_SHARED_POOL: Final = "_descriptor_pool.Default()"
_OWN_POOL: Final = "_descriptor_pool.DescriptorPool()"
_PACKAGE: Final = '"""Message classes, generated from runtime/proto by `make generate`."""\n'

# Folder to .proto files.
FOLDERS: Final = {
    "runtime/src/moorage_runtime/codec/_generated": ("grps", "health", "oip"),
    # The parts of TensorFlow's files that the OpenVINO backend reads.
    "runtime/src/moorage_runtime/backends/openvino/_generated": ("saved_model",),
    # The protocols in which the operator queries servers. The kubelet uses grpc.health.v1, and the
    # runtime answers the repository's index only over HTTP.
    "operator/src/moorage_operator/probe/protocols/_generated": ("grps", "oip", "repository"),
    # The protocols of `moorage infer` over gRPC.
    "cli/src/moorage_cli/_generated": ("grps", "oip"),
}


def files(root: Path) -> dict[str, str]:
    """The modules and their type stubs."""
    made = _compiled(root / PROTO, sorted({name for names in FOLDERS.values() for name in names}))
    return {
        f"{folder}/{file}": text
        for folder, names in FOLDERS.items()
        for file, text in _package(made, names).items()
    }


def _package(made: dict[str, str], names: Iterable[str]) -> dict[str, str]:
    """The files of one folder."""
    modules = [f"{name}_pb2.{suffix}" for name in names for suffix in ("py", "pyi")]
    return {"__init__.py": _PACKAGE, **{module: made[module] for module in modules}}


def _compiled(proto: Path, names: Iterable[str]) -> dict[str, str]:
    """File name to text of the compiler's output.

    Raises:
        RuntimeError: A file does not compile, or the output has an unexpected form.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = [f"--python_out={folder}", f"--pyi_out={folder}"]
        if protoc.main(["protoc", f"-I{proto}", *output, *(f"{name}.proto" for name in names)]):
            raise RuntimeError("the .proto files do not compile")
        return {path.name: _pooled(path) for path in Path(folder).iterdir()}


def _pooled(path: Path) -> str:
    text = path.read_text()
    if path.suffix == ".pyi":
        return text
    if text.count(_SHARED_POOL) != 1:
        raise RuntimeError(f"{path.name}: expected {_SHARED_POOL} once")
    return text.replace(_SHARED_POOL, _OWN_POOL)
