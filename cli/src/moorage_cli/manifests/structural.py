"""Evaluates a CRD's schema like an API server: unknown fields, defaults, values, rules; pure.

Source: Kubernetes, "Custom Resource Definitions": structural schemas, pruning, defaulting and
nullable, validation rules. Field paths have the API server's notation.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import jsonschema
from jsonschema.protocols import Validator
from jsonschema.validators import Draft202012Validator, extend

from moorage_cli.manifests.rules import holds

__all__ = ["Problem", "problems", "with_defaults"]

_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of one field."""

    path: str
    message: str


def problems(value: Mapping[str, Any], schema: Mapping[str, Any]) -> list[Problem]:
    """All problems; a rule is evaluated only if the fields below it are valid."""
    filled = with_defaults(value, schema)
    found = [*_unknown(filled, schema, ""), *_wrong_values(filled, schema)]
    found += _duplicates(filled, schema, "")
    wrong = {problem.path for problem in found}
    return found + list(_broken_rules(filled, schema, "", wrong))


def with_defaults(value: Any, schema: Mapping[str, Any]) -> Any:
    """The value with the schema's defaults; a null that is not allowed counts as absent."""
    if isinstance(value, list):
        items = cast("Mapping[str, Any]", schema.get("items", {}))
        return [with_defaults(item, items) for item in cast("list[Any]", value)]
    if not isinstance(value, Mapping):
        return value
    filled = dict(cast("Mapping[str, Any]", value))
    for name, below in _properties(schema).items():
        if filled.get(name, _ABSENT) is None and not below.get("nullable"):
            del filled[name]
        if name in filled:
            filled[name] = with_defaults(filled[name], below)
        elif "default" in below:
            filled[name] = below["default"]
    return filled


def _unknown(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[Problem]:
    for name, item, below, at in _children(value, schema, path):
        if below is None:
            near = difflib.get_close_matches(name, _properties(schema), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield Problem(at, f"unknown field{hint}")
        else:
            yield from _unknown(item, below, at)


def _wrong_values(value: Any, schema: Mapping[str, Any]) -> Iterator[Problem]:
    for error in _VALIDATOR(schema).iter_errors(value):
        path = ""
        for part in error.absolute_path:
            path = f"{path}[{part}]" if isinstance(part, int) else _join(path, part)
        yield Problem(path, _sentence(error))


def _sentence(error: jsonschema.ValidationError) -> str:
    got = repr(error.instance)
    got = got if len(got) <= 80 else f"{got[:77]}..."
    match error.validator:
        case "enum":
            wanted: Any = error.validator_value
            return f"{got} is invalid: must be one of {', '.join(map(str, wanted))}"
        case "type":
            return f"{got} is invalid: must be of type {error.validator_value}"
        case "pattern":
            return f"{got} is invalid: must match {error.validator_value}"
        case "anyOf":  # an integer or a string, the only form in the CRD
            quoted = f'; write "{got}"' if isinstance(error.instance, float) else ""
            return f"{got} is invalid: must be an integer or a string{quoted}"
        case "oneOf":  # of required fields, the only form in the CRD
            choices: Any = error.validator_value
            names = [name for choice in choices for name in choice["required"]]
            return f"must have exactly one of {', '.join(names)}"
        case _:
            is_short = len(error.message) <= 200
            return error.message if is_short else f"{got} is invalid: see {error.validator}"


def _duplicates(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[Problem]:
    keys = schema.get("x-kubernetes-list-map-keys")
    if keys and isinstance(value, list):
        seen: set[str] = set()
        for index, item in enumerate(cast("list[Any]", value)):
            name = repr([item.get(key) for key in keys]) if isinstance(item, Mapping) else ""
            if name in seen:
                yield Problem(f"{path}[{index}]", f"duplicate {', '.join(keys)}: {name}")
            seen.add(name)
    for _, item, below, at in _children(value, schema, path):
        if below is not None:
            yield from _duplicates(item, below, at)


def _broken_rules(
    value: Any, schema: Mapping[str, Any], path: str, wrong: set[str]
) -> Iterator[Problem]:
    below_wrong = any(at == path or at.startswith((f"{path}.", f"{path}[")) for at in wrong)
    if not below_wrong:
        for rule in schema.get("x-kubernetes-validations", ()):
            if not holds(rule["rule"], value):
                got = f"; got {value!r}" if isinstance(value, str) else ""
                yield Problem(path, f"{rule['message']}{got}")
    for _, item, below, at in _children(value, schema, path):
        if below is not None:
            yield from _broken_rules(item, below, at, wrong)


def _children(
    value: Any, schema: Mapping[str, Any], path: str
) -> Iterator[tuple[str, Any, Mapping[str, Any] | None, str]]:
    """Name, value, schema and path of each child; the schema of an unknown field is None."""
    if isinstance(value, list):
        items = cast("Mapping[str, Any]", schema.get("items", {}))
        for index, item in enumerate(cast("list[Any]", value)):
            yield str(index), item, items, f"{path}[{index}]"
    if not isinstance(value, Mapping):
        return
    known, further = _properties(schema), schema.get("additionalProperties")
    is_open = further is not None or schema.get("x-kubernetes-preserve-unknown-fields")
    for name, item in cast("Mapping[str, Any]", value).items():
        below = known.get(name, {} if is_open or not _is_closed(schema) else None)
        yield name, item, below, _join(path, name)


def _is_closed(schema: Mapping[str, Any]) -> bool:
    return "properties" in schema


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", schema.get("properties", {}))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _pattern(
    validator: Validator, pattern: str, instance: Any, schema: Mapping[str, Any]
) -> Iterator[jsonschema.ValidationError]:
    """The keyword `pattern` with RE2's `$`, which does not match before a final newline."""
    del validator, schema
    if isinstance(instance, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


def _format(
    validator: Validator, name: str, instance: Any, schema: Mapping[str, Any]
) -> Iterator[jsonschema.ValidationError]:
    """The keyword `format` of whole numbers, which an API server stores in 32 or 64 bits."""
    del validator, schema
    bits = {"int32": 31, "int64": 63}.get(name)
    if bits and isinstance(instance, int) and not -(2**bits) <= instance < 2**bits:
        limits = f"must be between {-(2**bits)} and {2**bits - 1}"
        yield jsonschema.ValidationError(f"{instance} is invalid: {limits}")


_VALIDATOR: Any = extend(Draft202012Validator, {"pattern": _pattern, "format": _format})
