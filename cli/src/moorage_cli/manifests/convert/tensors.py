"""What servers' own settings have in common: a name, tensors, and no location; pure.

triton, mlserver --> **tensors** --> draft
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .conversion import ConversionError
from .draft import Draft
from .fields import Path
from .metadata import valid_name

__all__ = ["name_model", "put_contract", "tell_location"]

_MAX_TENSORS = 256
_MAX_DIMENSIONS = 32
_MAX_NAME = 256
_MODEL_NAME = re.compile(r"(?!\.*\Z)[A-Za-z0-9._-]{1,253}")


def name_model(draft: Draft, given: Any, path: Path, folder: str) -> None:
    """Set the names of the resource and of the model.

    Args:
        draft: The resource.
        given: The name in the file; None if it has none.
        path: Path of that name.
        folder: Name of the folder, which names a model whose file has no name.

    Raises:
        ConversionError: The name is absent or invalid.
    """
    name = folder if given is None else given
    if not name:
        raise ConversionError(
            "name is absent: set it, or give the file in the folder of its model, such as "
            "iris/config.pbtxt"
        )
    if not isinstance(name, str) or not _MODEL_NAME.fullmatch(name):
        raise ConversionError(
            f"name {name!r} is invalid: must be at most 253 letters, digits, '.', '_' and '-', "
            "and not only dots"
        )
    made = valid_name(name)
    draft.put("metadata.name", made)
    if made == name:
        draft.take(*path)
        return
    draft.put("spec.model.name", name, path)
    if given is not None:
        draft.change(path, f"spec.model.name, and metadata.name {made}")


def tell_location(draft: Draft, uri: str, files: str) -> None:
    """Set the location of the files, or say that it is missing."""
    if uri:
        draft.put("spec.model.uri", uri)
    else:
        draft.tell(f"spec.model.uri is not set: set it, or use --uri, to {files}")


def put_contract(
    draft: Draft, side: str, tensors: Sequence[tuple[Mapping[str, Any], Path]]
) -> None:
    """Set the tensors of one side of the contract, without those that it cannot hold."""
    kept: list[Mapping[str, Any]] = []
    names: set[str] = set()
    for tensor, origin in tensors:
        name, shape = str(tensor["name"]), tensor.get("shape", [])
        dimensions = [each for each in shape if _is_dimension(each)]
        if not 1 <= len(name) <= _MAX_NAME or name in names or len(kept) == _MAX_TENSORS:
            draft.tell_loss(
                origin,
                f"the contract holds at most {_MAX_TENSORS} tensors, each with a name of its own "
                f"of at most {_MAX_NAME} characters",
            )
            continue
        names.add(name)
        held = dict(tensor)
        if len(dimensions) != len(shape) or len(shape) > _MAX_DIMENSIONS:
            draft.tell_loss(origin, "the shape is not a list of at most 32 sizes of -1 or more")
            del held["shape"]
        kept.append(held)
    if kept:
        draft.put(f"spec.contract.{side}", kept)


def _is_dimension(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -1 <= value < 2**63
