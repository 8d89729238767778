"""Converts smoke tests to and from JSON of TensorFlow Serving's Predict API; pure.

Inputs with the same first dimension are a batch and use the row format, which every model with a
batch dimension accepts. Other inputs use the columnar format.

Source: TensorFlow Serving RESTful API, "Predict API": request and response in row and columnar
format, "Encoding binary values".
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, cast

from moorage_operator.api.smoke_tests import RANK_LIMIT, InputTensor, Scalar
from moorage_operator.probe.reading.elements import Unreadable, flat, nested, text
from moorage_operator.values.smoke import Outputs

__all__ = ["outputs_of_document", "request_document"]


def request_document(inputs: Sequence[InputTensor]) -> dict[str, Any]:
    """Build the body of a predict request."""
    values = {each.name: nested(each.data, each.shape) for each in inputs}
    size, *others = {each.shape[0] if each.shape else 0 for each in inputs}
    if others or not size:
        return {"inputs": values if len(values) > 1 else next(iter(values.values()))}
    if len(values) == 1:
        return {"instances": next(iter(values.values()))}
    rows = zip(*values.values(), strict=True)
    return {"instances": [dict(zip(values, row, strict=True)) for row in rows]}


def outputs_of_document(document: dict[str, Any]) -> Outputs:
    """Extract the outputs of an answer; a single output has no name and is returned as "".

    Raises:
        Unreadable: It is not a predict answer.
    """
    if "outputs" in document:
        outputs: object = document["outputs"]
        columns = cast("dict[str, Any]", outputs) if _is_named(outputs) else {"": outputs}
        return {name: flat(_opened(value)) for name, value in columns.items()}
    rows: object = document.get("predictions")
    if not isinstance(rows, list):
        raise Unreadable("it has neither predictions nor outputs")
    listed = cast("list[object]", rows)
    if not listed or not all(map(_is_named, listed)):
        return {"": flat(_opened(listed))}
    named = cast("list[dict[str, Any]]", listed)
    if any(row.keys() != named[0].keys() for row in named):
        raise Unreadable("its predictions have different outputs")
    return {name: flat([_opened(row[name]) for row in named]) for name in named[0]}


def _is_named(value: object) -> bool:
    """Whether a value is an object of outputs and not one encoded string."""
    return isinstance(value, dict) and cast("dict[str, Any]", value).keys() != {"b64"}


def _opened(value: Any, depth: int = 0) -> Any:
    """Decode the base64 objects in a value."""
    if isinstance(value, list):
        # Not deeper than the limit of `flat`, which rejects the rest.
        items = cast("list[Any]", value)
        return [_opened(item, depth + 1) for item in items] if depth < RANK_LIMIT else items
    if isinstance(value, Mapping) and isinstance(value.get("b64"), str):
        try:
            return text(base64.b64decode(cast("str", value["b64"]), validate=True))
        except ValueError as why:
            raise Unreadable("a b64 value is not valid base64") from why
    return cast("Scalar", value)
