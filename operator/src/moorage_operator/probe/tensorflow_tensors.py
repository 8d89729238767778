"""A smoke test as TensorFlow Serving's Predict API writes it, and the answer's outputs; pure.

Inputs that share their first dimension are a batch and go as rows, which every model takes that
has one; others go as columns.

Source: TensorFlow Serving RESTful API, "Predict API": request and response in row and columnar
format, "Encoding binary values".
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, cast

from moorage_operator.api.smoke_tests import InputTensor, Scalar
from moorage_operator.smoke import Outputs

from .elements import Unreadable, flat, nested, text

__all__ = ["outputs_of_document", "request_document"]


def request_document(inputs: Sequence[InputTensor]) -> dict[str, Any]:
    """The body of a predict request."""
    values = {each.name: nested(each.data, each.shape) for each in inputs}
    sizes = {each.shape[0] if each.shape else None for each in inputs}
    if len(sizes) > 1 or sizes <= {None, 0}:
        return {"inputs": values if len(values) > 1 else next(iter(values.values()))}
    if len(values) == 1:
        return {"instances": next(iter(values.values()))}
    rows = zip(*values.values(), strict=True)
    return {"instances": [dict(zip(values, row, strict=True)) for row in rows]}


def outputs_of_document(document: dict[str, Any]) -> Outputs:
    """The outputs of an answer; "" names the only one, which the protocol leaves without a name.

    Raises:
        Unreadable: It is no predict answer.
    """
    if "outputs" in document:
        told: object = document["outputs"]
        columns = cast("dict[str, Any]", told) if _is_named(told) else {"": told}
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
    """Whether this is an object of outputs, and not one encoded string."""
    return isinstance(value, dict) and cast("dict[str, Any]", value).keys() != {"b64"}


def _opened(value: Any, depth: int = 0) -> Any:
    """The value with its base64 objects as text."""
    if isinstance(value, list):
        # No deeper than `flat` would go; what is below stays and is refused there.
        items = cast("list[Any]", value)
        return [_opened(item, depth + 1) for item in items] if depth < 32 else items
    if isinstance(value, Mapping) and isinstance(value.get("b64"), str):
        try:
            return text(base64.b64decode(cast("str", value["b64"]), validate=True))
        except (binascii.Error, ValueError) as why:
            raise Unreadable("a b64 object is no base64") from why
    return cast("Scalar", value)
