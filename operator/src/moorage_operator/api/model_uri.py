"""Where a model's files come from: a volume, a ConfigMap, or a store that it is fetched from.

The CRD's rules say the same at the API server, by the same patterns; this reading stands for
objects that passed an older CRD. A scheme of a later version is named as such. What is fetched is
read in full by the init container that fetches it (`moorage_runtime.fetch.source`).
"""

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote

from .fields import Fields, abridged
from .uri_patterns import DOTS, EXPECTED, NAME_LIMIT, PATTERNS, SECRET_SAFE

__all__ = ["ModelUri", "Scheme", "parse_model_uri"]


class Scheme(StrEnum):
    """The schemes that this version mounts or fetches."""

    PVC = "pvc"
    CONFIG_MAP = "configmap"
    S3 = "s3"
    GCS = "gs"
    HUB = "hf"
    OCI = "oci"
    HTTPS = "https"

    @property
    def is_fetched(self) -> bool:
        """Whether an init container brings the files."""
        return self not in {Scheme.PVC, Scheme.CONFIG_MAP}


@dataclass(frozen=True, slots=True)
class ModelUri:
    """A URI that is well formed.

    Attributes:
        scheme: Its scheme.
        name: A claim or a ConfigMap; empty where the model is fetched.
        path: Where the model lies in what is mounted, no leading slash, may be empty.
        text: The URI as it was written.
    """

    scheme: Scheme
    name: str
    path: str = ""
    text: str = ""

    @property
    def image(self) -> str:
        """The image's reference as container runtimes write it; of `oci` alone."""
        return self.text.partition("://")[2].partition("?")[0]

    @property
    def shown(self) -> str:
        """As in a status or an event: the query of a web address may be a secret."""
        return self.text.partition("?")[0] if self.scheme in SECRET_SAFE else self.text


def parse_model_uri(fields: Fields, name: str) -> ModelUri | None:
    """The URI in a field; None where it is absent or wrong (then there is a problem)."""
    text = fields.text(name)
    if not text:
        return None
    scheme, found, rest = text.partition("://")
    if not found:
        fields.reject(name, text, _any())
        return None
    if scheme not in set(Scheme):
        fields.reject(name, text, f"{_any()}; the scheme is unknown", "UnsupportedScheme")
        return None
    if problem := _problem(Scheme(scheme), text):
        fields.reject(name, text, problem)
        return None
    if Scheme(scheme).is_fetched:
        path = unquote(rest.partition("?path=")[2]).strip("/") if scheme == Scheme.OCI else ""
        return ModelUri(Scheme(scheme), "", path, text)
    holder, _, path = rest.partition("/")
    return ModelUri(Scheme(scheme), holder, path.strip("/"), text)


def _problem(scheme: Scheme, text: str) -> str:
    if DOTS.search(text):
        return "a path without '.' and '..' parts"
    if not PATTERNS[scheme].fullmatch(text):
        return EXPECTED[scheme]
    holder = text.partition("://")[2].partition("/")[0]
    if not scheme.is_fetched and len(holder) > NAME_LIMIT:
        return f"{EXPECTED[scheme]}; {abridged(holder)} is no name of a Kubernetes object"
    return ""


def _any() -> str:
    return ", ".join(EXPECTED[scheme].partition(" ")[0] for scheme in Scheme)
