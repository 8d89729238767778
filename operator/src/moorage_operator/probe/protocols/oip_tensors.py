"""Converts smoke tests to and from JSON of the Open Inference Protocol; pure.

Source: Open Inference Protocol V2, HTTP/REST "Inference Request JSON Object".
"""

from collections.abc import Sequence
from typing import Any, cast

from moorage_operator.api.smoke_tests import InputTensor, Scalar
from moorage_operator.probe.reading.elements import Unreadable, flat
from moorage_operator.values.smoke import Outputs

__all__ = ["outputs_of_document", "request_document"]


def request_document(inputs: Sequence[InputTensor]) -> dict[str, Any]:
    """Build the body of an inference request."""
    return {
        "inputs": [
            {
                "name": each.name,
                "datatype": each.datatype,
                "shape": each.shape,
                "data": each.data,
            }
            for each in inputs
        ]
    }


def outputs_of_document(document: dict[str, Any]) -> Outputs:
    """Extract the outputs of a JSON answer.

    Raises:
        Unreadable: It is not an inference answer.
    """
    listed: object = document.get("outputs")
    if not isinstance(listed, list):
        raise Unreadable("it has no list of outputs")
    found: dict[str, Sequence[Scalar]] = {}
    for each in cast("list[object]", listed):
        tensor = cast("dict[str, Any]", each) if isinstance(each, dict) else {}
        name: object = tensor.get("name")
        if not isinstance(name, str) or "data" not in tensor:
            raise Unreadable("an output has no name or no data")
        found[name] = flat(tensor["data"])
    return found
