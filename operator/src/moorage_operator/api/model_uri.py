"""`spec.model.uri`: a volume, a ConfigMap, or a location that the model is downloaded from.

The CRD's rules use the same patterns, so this check matters for objects that passed an older CRD.
Locations for a download are parsed in full by the init container (`moorage_runtime.fetch.source`).
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote

from .fields import Fields, abridged
from .uri_patterns import DOTS, EXPECTED, NAME_LIMIT, PATTERNS

__all__ = ["ModelUri", "Scheme", "parse_model_uri"]

# What may be a secret: the user of any URI, and the query of a web address.
SECRET_USER = re.compile(r"(?<=://)[^/?#]*(?=@)")
SECRET_QUERY = re.compile(r"^(https?://[^?]*[?]).*", re.DOTALL)


class Scheme(StrEnum):
    """The schemes that this version mounts or downloads."""

    PVC = "pvc"
    CONFIG_MAP = "configmap"
    S3 = "s3"
    GCS = "gs"
    AZURE = "azblob"
    HUB = "hf"
    OCI = "oci"
    HTTPS = "https"

    @property
    def is_fetched(self) -> bool:
        """Whether the model has to be downloaded."""
        return self not in {Scheme.PVC, Scheme.CONFIG_MAP}


@dataclass(frozen=True, slots=True)
class ModelUri:
    """A valid URI.

    Attributes:
        scheme: The scheme.
        name: The claim or ConfigMap; empty for a model that is downloaded.
        path: The model's path within the volume, without a leading slash; may be empty.
        text: The URI as written in the spec.
    """

    scheme: Scheme
    name: str
    path: str = ""
    text: str = ""

    @property
    def image(self) -> str:
        """The image reference of an `oci` URI, as container runtimes expect it."""
        return self.text.partition("://")[2].partition("?")[0]


def parse_model_uri(fields: Fields, name: str) -> ModelUri | None:
    """Read the URI of a field; None if it is absent, or invalid and recorded as a problem."""
    text = fields.text(name)
    if not text:
        return None
    scheme, found, _ = text.partition("://")
    if not found:
        fields.reject(name, text, _any())
        return None
    if scheme not in set(Scheme):
        sentence = f"{_shown(text)} has an unsupported scheme: must be {_any()}"
        fields.report(name, sentence, "UnsupportedScheme")
        return None
    uri = _divided(Scheme(scheme), text)
    if rule := _broken_rule(uri):
        fields.report(name, f"{_shown(text)} is invalid: {rule}")
        return None
    return uri


def _divided(scheme: Scheme, text: str) -> ModelUri:
    if scheme is Scheme.OCI:
        return ModelUri(scheme, "", unquote(text.partition("?path=")[2]).strip("/"), text)
    if scheme.is_fetched:
        return ModelUri(scheme, "", "", text)
    name, _, path = text.partition("://")[2].partition("/")
    return ModelUri(scheme, name, path.strip("/"), text)


def _broken_rule(uri: ModelUri) -> str:
    """Return the rule that a URI breaks, "" if it is valid."""
    if DOTS.search(uri.text) or DOTS.search(f"/{uri.path}"):
        return "path must not contain '.' or '..' segments"
    if not PATTERNS[uri.scheme].fullmatch(uri.text):
        return f"must be {EXPECTED[uri.scheme]}"
    if len(uri.name) > NAME_LIMIT:
        return f"{abridged(uri.name)} is longer than {NAME_LIMIT} characters"
    return ""


def _shown(text: str) -> str:
    """Quote a URI for a message, without what may be a secret."""
    return abridged(SECRET_QUERY.sub(r"\1***", SECRET_USER.sub("***", text)))


def _any() -> str:
    *others, last = (EXPECTED[scheme].replace(",", " ").partition(" ")[0] for scheme in Scheme)
    return f"{', '.join(others)} or {last}"
