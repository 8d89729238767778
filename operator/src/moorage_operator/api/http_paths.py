"""HTTP paths in a spec; pure."""

import re

from .fields import Fields

__all__ = ["parse_path"]

# The paths that a kubelet accepts: absolute, printable, with valid escapes.
HTTP_PATH = re.compile(r'/([!-"$&-~]|%[0-9A-Fa-f]{2})*')
HTTP_PATH_EXPECTED = "a path that begins with '/' and contains no spaces, such as /v2/health/ready"


def parse_path(fields: Fields, name: str) -> str:
    """Return a path, empty if it is absent or invalid; record an invalid one as a problem."""
    path = fields.text(name)
    if not path or HTTP_PATH.fullmatch(path):
        return path
    fields.reject(name, path, HTTP_PATH_EXPECTED)
    return ""
