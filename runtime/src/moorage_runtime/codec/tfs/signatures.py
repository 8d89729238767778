"""Signatures: the names of a model's inputs and outputs for TensorFlow Serving clients.

Maps ModelMetadata to signatures. A model that declares none (ONNX, Python, scikit-learn) gets
``serving_default``, a predict signature of its tensors under their own names. Otherwise it has
only the declared ones.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from moorage_runtime.values.errors import InvalidConfig, InvalidRequest
from moorage_runtime.values.inference import ModelMetadata, RequestedOutput
from moorage_runtime.values.tensors import Tensor, TensorSpec

DEFAULT_SIGNATURE: Final = "serving_default"


class BoundSignature(msgspec.Struct, frozen=True):
    """A signature whose keys are bound to the model's own tensors.

    Attributes:
        name: Signature name.
        method: "predict", "classify" or "regress".
        inputs: Signature key, or feature name, to the model's input.
        outputs: Signature key to the model's output.
        derived: Derived from the metadata instead of declared: keys are the model's own names,
            and every tensor that the model returns is an output.
    """

    name: str
    method: str
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    derived: bool = False


def signatures_of(metadata: ModelMetadata) -> dict[str, BoundSignature]:
    """The signatures of a model, by name.

    Raises:
        InvalidConfig: A declared signature names a tensor that the model does not have.
    """
    inputs = {spec.name: spec for spec in metadata.inputs}
    outputs = {spec.name: spec for spec in metadata.outputs}
    if not metadata.signatures:
        return {
            DEFAULT_SIGNATURE: BoundSignature(
                DEFAULT_SIGNATURE, "predict", inputs, outputs, derived=True
            )
        }
    return {
        name: BoundSignature(
            name,
            declared.method,
            _bind(f"signatures.{name}.inputs", declared.inputs, inputs),
            _bind(f"signatures.{name}.outputs", declared.outputs, outputs),
        )
        for name, declared in metadata.signatures.items()
    }


def select_signature(
    signatures: Mapping[str, BoundSignature], name: str, method: str
) -> BoundSignature:
    """The signature of a request; ``name`` "" is the default one.

    Raises:
        InvalidRequest: The signature does not exist, or has another method.
    """
    wanted = name or DEFAULT_SIGNATURE
    signature = signatures.get(wanted)
    if signature is None:
        raise InvalidRequest(
            f'Serving signature name: "{wanted}" not found in signature def; '
            f"the model has: {_listed(signatures)}"
        )
    if signature.method != method:
        raise InvalidRequest(
            f'Expected signature "{wanted}" method_name to be {method_name(method)}. '
            f"Was: {method_name(signature.method)}"
        )
    return signature


def requested_outputs(signature: BoundSignature) -> tuple[RequestedOutput, ...]:
    """The model outputs of a signature; empty, which means all, for a derived one."""
    if signature.derived:
        return ()
    # two keys may name the same output, which a request may name only once
    names = dict.fromkeys(spec.name for spec in signature.outputs.values())
    return tuple(map(RequestedOutput, names))


def outputs_by_key(outputs: Iterable[Tensor], signature: BoundSignature) -> dict[str, Tensor]:
    """The outputs that the model returned for requested_outputs(signature), under the signature's
    keys.
    """
    by_name = {tensor.name: tensor for tensor in outputs}
    if signature.derived:
        return by_name
    return {key: by_name[spec.name] for key, spec in signature.outputs.items()}


def method_name(method: str) -> str:
    """TensorFlow's name of a method, in metadata and error texts."""
    return f"tensorflow/serving/{method}"


def _bind(
    field: str, declared: Mapping[str, str], specs: Mapping[str, TensorSpec]
) -> dict[str, TensorSpec]:
    for key, tensor in declared.items():
        if tensor not in specs:
            raise InvalidConfig(
                f"{field}.{key}: the model has no tensor {tensor!r}: must be one of "
                f"{_listed(specs)}"
            )
    return {key: specs[tensor] for key, tensor in declared.items()}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
