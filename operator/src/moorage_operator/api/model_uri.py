"""`spec.model.uri`: a volume, a ConfigMap, or a location that the model is downloaded from.

The CRD's rules use the same patterns, so this check matters for objects that passed an older CRD.
Locations for a download are parsed in full by the init container (`moorage_runtime.fetch.source`).
"""

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote

from .fields import Fields, abridged
from .uri_patterns import DOTS, EXPECTED, NAME_LIMIT, PATTERNS, SECRET_SAFE

__all__ = ["ModelUri", "Scheme", "parse_model_uri"]


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

    @property
    def shown(self) -> str:
        """The URI for a status or an event, without a query that may hold a secret."""
        return self.text.partition("?")[0] if self.scheme in SECRET_SAFE else self.text


def parse_model_uri(fields: Fields, name: str) -> ModelUri | None:
    """Read the URI of a field; None if it is absent, or invalid and recorded as a problem."""
    text = fields.text(name)
    if not text:
        return None
    scheme, found, rest = text.partition("://")
    if not found:
        fields.reject(name, text, _any())
        return None
    if scheme not in set(Scheme):
        sentence = f"{abridged(text)} has an unsupported scheme: must be {_any()}"
        fields.report(name, sentence, "UnsupportedScheme")
        return None
    if rule := _broken_rule(Scheme(scheme), text):
        fields.report(name, f"{abridged(text)} is invalid: {rule}")
        return None
    if Scheme(scheme).is_fetched:
        path = unquote(rest.partition("?path=")[2]).strip("/") if scheme == Scheme.OCI else ""
        return ModelUri(Scheme(scheme), "", path, text)
    holder, _, path = rest.partition("/")
    return ModelUri(Scheme(scheme), holder, path.strip("/"), text)


def _broken_rule(scheme: Scheme, text: str) -> str:
    """Return the rule that a URI breaks, "" if it is valid."""
    if DOTS.search(text):
        return "path must not contain '.' or '..' segments"
    if not PATTERNS[scheme].fullmatch(text):
        return f"must be {EXPECTED[scheme]}"
    holder = text.partition("://")[2].partition("/")[0]
    if not scheme.is_fetched and len(holder) > NAME_LIMIT:
        return f"{abridged(holder)} is longer than {NAME_LIMIT} characters"
    return ""


def _any() -> str:
    *others, last = (EXPECTED[scheme].partition(" ")[0].rstrip(",") for scheme in Scheme)
    return f"{', '.join(others)} or {last}"
