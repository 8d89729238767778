"""Combinations of fields that OpenAI, None and JSON smoke tests do not support.

OpenAI servers have no tensors, no versions and no bundled implementation. With `None` the operator
knows nothing of the server but the path of its health. The CRD has the same rules.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from .fields import Fields

__all__ = ["check_requests", "check_without_tensors"]

OPENAI = "OpenAI"
NONE = "None"


def check_requests(spec: Fields) -> None:
    """Report JSON requests of smoke tests that cannot be sent."""
    for at, test in enumerate(_tests(spec)):
        request = test.get("request")
        if not isinstance(request, Mapping):
            continue
        if spec.peek("transport") == "GRPC":
            sentence = "requires transport HTTP; set transport to HTTP, or test with inputs"
            spec.report(f"smokeTests.tests[{at}].request", sentence)
        if spec.peek("protocol") != OPENAI and not _is_given(request, "path"):
            sentence = "is required unless protocol is OpenAI, such as /v1/chat/completions"
            spec.report(f"smokeTests.tests[{at}].request.path", sentence)


def check_without_tensors(spec: Fields) -> None:
    """Report settings that the protocols OpenAI and None do not support."""
    protocol = spec.peek("protocol")
    for path, sentence in _unsupported(spec, str(protocol)):
        spec.report(path, sentence)
    if protocol == NONE:
        for path, sentence in _unsupported_without_protocol(spec):
            spec.report(path, sentence)


def _unsupported(spec: Fields, protocol: str) -> list[tuple[str, str]]:
    with_it = f"with protocol {protocol}"
    found: list[tuple[str, str]] = []
    if spec.peek("transport") == "GRPC":
        found.append(("transport", f"must be HTTP {with_it}; set transport to HTTP"))
    if not _is_given(spec.peek("runtime"), "image"):
        sentence = (
            f"is required {with_it}, because the bundled runtime speaks others; set it, or set "
            "runtime.name to an InferenceRuntime with an image"
        )
        found.append(("runtime.image", sentence))
    if _is_given(spec.peek("model"), "version"):
        sentence = f"has no effect {with_it}, which has no versions; remove it"
        found.append(("model.version", sentence))
    if _is_given(spec.peek("paths"), "metadata"):
        found.append(("paths.metadata", f"has no effect {with_it}; remove it"))
    for side in ("inputs", "outputs"):
        if _is_given(spec.peek("contract"), side):
            sentence = f"cannot be compared {with_it}, which has no tensors; remove it"
            found.append((f"contract.{side}", sentence))
    for at, test in enumerate(_tests(spec)):
        if _is_given(test, "inputs"):
            sentence = f"cannot be sent {with_it}, which has no tensors; use request and expect"
            found.append((f"smokeTests.tests[{at}].inputs", sentence))
    return found


def _unsupported_without_protocol(spec: Fields) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if not _is_given(spec.peek("paths"), "ready"):
        sentence = "is required with protocol None and must be a path that the server answers"
        found.append(("paths.ready", f"{sentence}, such as /readyz"))
    if _is_given(spec.peek("paths"), "modelReady"):
        sentence = "has no effect with protocol None, which has no models; use paths.ready"
        found.append(("paths.modelReady", sentence))
    return found


def _tests(spec: Fields) -> list[Mapping[str, Any]]:
    section = spec.peek("smokeTests")
    listed = (
        cast("Mapping[str, Any]", section).get("tests") if isinstance(section, Mapping) else None
    )
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        return []
    items = cast("Sequence[object]", listed)
    return [cast("Mapping[str, Any]", each) if isinstance(each, Mapping) else {} for each in items]


def _is_given(holder: object, name: str) -> bool:
    """Whether an object has a value for a field; an empty text or list counts as absent."""
    if not isinstance(holder, Mapping):
        return False
    return cast("Mapping[str, Any]", holder).get(name) not in (None, "", [])
