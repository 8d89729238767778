"""Where a model's files come from: `pvc://claim/path` and `configmap://name`, read and checked.

The CRD's rules say the same at the API server; this reading stands for objects that passed an
older CRD. A scheme of a later version is named as such.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from .fields import Fields, abridged

__all__ = ["ModelUri", "Scheme", "parse_model_uri"]

# RFC 1123 subdomain, the name of a ConfigMap or a claim.
OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
OBJECT_NAME_LIMIT = 253
EXPECTED = "pvc://CLAIM/PATH or configmap://NAME"


class Scheme(StrEnum):
    """The schemes that this version mounts."""

    PVC = "pvc"
    CONFIG_MAP = "configmap"


@dataclass(frozen=True, slots=True)
class ModelUri:
    """A claim with a path in it (no leading slash, may be empty), or a ConfigMap (no path)."""

    scheme: Scheme
    name: str
    path: str = ""


def parse_model_uri(fields: Fields, name: str) -> ModelUri | None:
    """The URI in a field; None where it is absent or wrong (then there is a problem)."""
    text = fields.text(name)
    if not text:
        return None
    scheme, found, rest = text.partition("://")
    if not found:
        fields.reject(name, text, EXPECTED)
        return None
    if scheme not in set(Scheme):
        fields.reject(name, text, f"{EXPECTED}; the scheme is unknown", "UnsupportedScheme")
        return None
    holder, slash, path = rest.partition("/")
    problem = _problem(Scheme(scheme), holder, slash, path)
    if problem:
        fields.reject(name, text, problem)
        return None
    return ModelUri(Scheme(scheme), holder, path.strip("/"))


def _problem(scheme: Scheme, holder: str, slash: str, path: str) -> str:
    if not OBJECT_NAME.fullmatch(holder) or len(holder) > OBJECT_NAME_LIMIT:
        return f"{EXPECTED}; {abridged(holder)} is no name of a Kubernetes object"
    if scheme is Scheme.CONFIG_MAP and slash:
        return "configmap://NAME without a path: the whole ConfigMap is one model's folder"
    if any(part in {".", ".."} for part in path.split("/")):
        return "a path without '.' and '..' parts"
    return ""
