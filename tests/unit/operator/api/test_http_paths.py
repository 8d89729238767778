"""HTTP paths: which are read, and what is said of the others."""

from typing import Any

import pytest

from moorage_operator.api.fields import Fields, Problem
from moorage_operator.api.http_paths import parse_path


def read(path: Any) -> tuple[str, list[str]]:
    problems: list[Problem] = []
    found = parse_path(Fields({"ready": path}, "spec.paths", problems), "ready")
    return found, [str(problem) for problem in problems]


@pytest.mark.parametrize("path", ["/", "/a/b", "/a%20b?c=d", "", None])
def test_a_path_is_read(path: str | None) -> None:
    assert read(path) == (path or "", [])


@pytest.mark.parametrize("path", ["a", "/a b", "/a#b", "/%zz", "/%2", "/\u00e4", "/a\n"])
def test_an_invalid_path_is_reported(path: str) -> None:
    assert read(path) == (
        "",
        [
            (
                f"spec.paths.ready: {path!r} is invalid: must be a path that begins with '/' and "
                "contains no spaces, such as /v2/health/ready"
            )
        ],
    )
