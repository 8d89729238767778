"""Smoke tests in JSON: a request to an HTTP path, and expected values in its answer.

`values.json_answers` compares an answer with the expectations.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from . import json_paths, patterns
from .fields import Fields
from .http_paths import parse_path
from .json_paths import JsonPath

__all__ = ["Expectation", "JsonRequest", "Method", "parse_expectations", "parse_request"]

BODY_LIMIT_BYTES = 64 << 10
BODY_DEPTH_LIMIT = 32
EXPECTATION_LIMIT = 32
TEXT_LIMIT_CHARACTERS = 4096
CHECKS = ("value", "pattern", "exists")

JsonScalar = bool | int | float | str


class Method(StrEnum):
    """Methods of a request; only POST has a body."""

    POST = "POST"
    GET = "GET"


@dataclass(frozen=True, slots=True)
class JsonRequest:
    """A request; an empty path means the protocol's own, and GET has no body."""

    path: str = ""
    method: Method = Method.POST
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Expectation:
    """What one place of the answer must hold: a value, text that matches, or anything at all.

    Exactly one of `value`, `pattern` and `exists` is set.
    """

    path: str
    value: JsonScalar | None = None
    pattern: str = ""
    exists: bool | None = None

    @property
    def steps(self) -> JsonPath:
        """The steps of the path."""
        return json_paths.parse_json_path(self.path) or ()


def parse_request(fields: Fields) -> JsonRequest:
    """Read a request; record invalid values as problems."""
    request = JsonRequest(
        path=parse_path(fields, "path"),
        method=fields.choice("method", Method.POST),
        body=_parse_body(fields),
    )
    has_body = fields.has("body")
    if request.method is Method.POST and not has_body:
        fields.require("body", "a JSON object, unless method is GET")
    if request.method is Method.GET and has_body:
        fields.report("body", "has no effect with method GET: remove it or set method to POST")
    fields.unknown()
    return request


def _parse_body(fields: Fields) -> Mapping[str, Any] | None:
    value = fields.raw("body")  # an empty body is not the default of the API
    if value is None:
        return None
    if not isinstance(value, Mapping):
        fields.reject("body", value, "an object")
        return {}
    body = cast("Mapping[str, Any]", value)
    if _is_too_deep(body):
        sentence = f"is nested too deeply: must have at most {BODY_DEPTH_LIMIT} levels"
        fields.report("body", sentence)
        return {}
    size = len(json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode())
    if size > BODY_LIMIT_BYTES:
        sentence = f"has {size} bytes as JSON: must have at most {BODY_LIMIT_BYTES}"
        fields.report("body", sentence)
        return {}
    if body.get("stream") is True:
        expected = "false or absent, because a test reads one JSON document and not a stream"
        fields.reject("body.stream", True, expected)  # noqa: FBT003 -- the invalid value
    return body


def _is_too_deep(value: object) -> bool:
    """Whether a document has more levels than allowed; without recursion."""
    level: list[object] = [value]
    for _ in range(BODY_DEPTH_LIMIT + 1):
        below: list[object] = []
        for each in level:
            if isinstance(each, Mapping):
                below += cast("Mapping[str, object]", each).values()
            elif isinstance(each, list):
                below += cast("list[object]", each)
        if not below:
            return False
        level = below
    return True


def parse_expectations(fields: Fields, name: str) -> tuple[Expectation, ...]:
    """Read a list of expectations; record invalid ones as problems."""
    found = fields.children(name, EXPECTATION_LIMIT, "expectations")
    return tuple(map(_parse_expectation, found))


def _parse_expectation(fields: Fields) -> Expectation:
    given = [name for name in CHECKS if fields.has(name)]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        fields.report("", f"has {found}: must have exactly one of {', '.join(CHECKS)}")
    expectation = Expectation(
        path=_parse_json_path(fields),
        value=_parse_value(fields),
        pattern=_parse_pattern(fields),
        exists=_parse_exists(fields),
    )
    fields.unknown()
    return expectation


def _parse_json_path(fields: Fields) -> str:
    path = fields.text("jsonPath")
    if not path:
        fields.require("jsonPath", json_paths.EXPECTED)
    elif json_paths.parse_json_path(path) is None:
        fields.reject("jsonPath", path, json_paths.EXPECTED)
    return path


def _parse_exists(fields: Fields) -> bool | None:
    value = fields.raw("exists")  # false is not the default of the API
    if value is None or isinstance(value, bool):
        return value
    fields.reject("exists", value, "true or false")
    return None


def _parse_value(fields: Fields) -> JsonScalar | None:
    value = fields.raw("value")
    if value is None:
        return None
    too_long = isinstance(value, str) and len(value) > TEXT_LIMIT_CHARACTERS
    if isinstance(value, bool | int | float | str) and not too_long:
        return value
    expected = f"a number, a boolean or a string of at most {TEXT_LIMIT_CHARACTERS} characters"
    fields.reject("value", value, expected)
    return None


def _parse_pattern(fields: Fields) -> str:
    pattern = fields.text("pattern")
    limit = patterns.PATTERN_LIMIT_CHARACTERS
    if len(pattern) > limit:
        fields.reject("pattern", pattern, f"at most {limit} characters")
    elif pattern and (problem := patterns.problem_of(pattern)):
        fields.reject("pattern", pattern, f"a regular expression in RE2's syntax ({problem})")
    return pattern
