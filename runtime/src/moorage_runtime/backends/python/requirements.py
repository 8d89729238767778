"""Checks the requirements.txt of a Python model; pure.

Only pinned versions with hashes are accepted, so a file always means the same packages. Options
are refused: the server's settings decide where packages come from.
"""

import re
from typing import Final

from moorage_runtime.values.errors import InvalidConfig

__all__ = ["FILE", "check"]

FILE: Final = "requirements.txt"
LIMIT_BYTES: Final = 1024 * 1024
_COMMENT: Final = re.compile(r"(^|\s)#.*$")
# Source: PEP 508 names and extras, PEP 440 versions; environment markers may follow,
# but no options.
_PINNED: Final = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\s*(\[[A-Za-z0-9._, -]*\])?\s*"
    r"===?\s*[A-Za-z0-9][A-Za-z0-9.!+_-]*\s*(;((?!\s-).)*)?"
)
_NAME_END: Final = re.compile(r"[\s\[=]")
# Source: PEP 503, normalized names.
_SEPARATORS: Final = re.compile(r"[-_.]+")
_HASH: Final = re.compile(
    r"\s--hash[= ](sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128})(?=\s|$)"
)


def check(text: str) -> int:
    """Check that every line is a pinned version with a hash, and count the packages.

    A package with a line for each platform counts once.

    Raises:
        InvalidConfig: A line is something else; the message has its number.
    """
    names: set[str] = set()
    for number, line in _lines(text):
        words = line.split("--hash", 1)[0].strip()
        if line.startswith("-"):
            raise InvalidConfig(
                f"{FILE}: line {number}: the option {line.split()[0]!r:.100} is not allowed: must "
                "be NAME==VERSION with --hash"
            )
        if not _PINNED.fullmatch(words):
            raise InvalidConfig(
                f"{FILE}: line {number}: {words!r:.100} is not a pinned version: must be "
                "NAME==VERSION with --hash"
            )
        if "--hash" not in line:
            raise InvalidConfig(
                f"{FILE}: line {number}: {words!r:.100} has no hash: add --hash=sha256:..., such "
                "as with pip-compile --generate-hashes"
            )
        if _HASH.sub("", line).strip() != words:
            raise InvalidConfig(
                f"{FILE}: line {number}: {words!r:.100} has an invalid hash or option: must have "
                "only --hash=sha256: with 64 lower-case hexadecimal digits, sha384 or sha512"
            )
        names.add(_SEPARATORS.sub("-", _NAME_END.split(words, maxsplit=1)[0]).lower())
    return len(names)


def _lines(text: str) -> list[tuple[int, str]]:
    """The logical lines, each with the number of its first line."""
    found: list[tuple[int, str]] = []
    start, parts = 0, list[str]()
    for number, raw in enumerate(text.splitlines(), start=1):
        start = start or number
        continues = raw.endswith("\\") and not raw.lstrip().startswith("#")
        parts.append(_COMMENT.sub("", raw.removesuffix("\\") if continues else raw))
        if not continues:
            found.append((start, " ".join(parts).strip()))
            start, parts = 0, []
    found.append((start, " ".join(parts).strip()))
    return [(number, line) for number, line in found if line]
