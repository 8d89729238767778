"""`spec.model`: which model, where its files are, and how they may be fetched."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .fields import Fields, Problem
from .model_uri import ModelUri, Scheme, parse_model_uri
from .uri_patterns import NAME_LIMIT

__all__ = ["BYTES", "Credentials", "Download", "ImageVolume", "ModelSpec", "parse_model"]

# A model's name or version is one segment of a URL's path, of folders and of label-like texts.
MODEL_NAME = re.compile(r"[A-Za-z0-9._-]+")
# RFC 1123 subdomain, the name of a Secret.
OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
# Of bytes, so without milli and without a fraction.
BYTES = re.compile(r"[1-9][0-9]{0,17}([kMGTP]|[KMGTP]i)?")


@dataclass(frozen=True, slots=True)
class Credentials:
    """`spec.model.credentials`; an empty name is no Secret."""

    secret_name: str = ""


@dataclass(frozen=True, slots=True)
class Download:
    """`spec.model.download`: the volume that a model is fetched to, and who fetches it.

    An empty `size_limit` is what the node has; `resources` None are the operator's own.
    """

    size_limit: str = ""
    resources: Mapping[str, Any] | None = None


class ImageVolume(StrEnum):
    """`spec.model.imageVolume`: whether the node mounts a registry's image as a volume."""

    AUTO = "Auto"
    ALWAYS = "Always"
    NEVER = "Never"


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """`spec.model`; `name` has its default, an empty `version` is the server's choice."""

    name: str
    version: str = ""
    uri: ModelUri | None = None
    credentials: Credentials = Credentials()
    download: Download = Download()
    image_volume: ImageVolume = ImageVolume.AUTO

    def is_mounted_image(self, *, available: bool) -> bool:
        """Whether the node mounts the image; else an init container fetches the model.

        What is said of fetching is said to an init container, so then Auto takes that one.

        Args:
            available: Whether the pods of this cluster can have image volumes.
        """
        if self.uri is None or self.uri.scheme is not Scheme.OCI:
            return False
        if self.image_volume is ImageVolume.AUTO:
            return available and not self.is_told_to_fetch
        return self.image_volume is ImageVolume.ALWAYS

    @property
    def is_told_to_fetch(self) -> bool:
        """Whether the spec has what only an init container can heed."""
        return self.credentials != Credentials() or self.download != Download()


def parse_model(fields: Fields, resource_name: str) -> ModelSpec:
    """`spec.model` with its defaults; what is wrong becomes problems."""
    spec = ModelSpec(
        name=_parse_name(fields, "name") or resource_name,
        version=_parse_name(fields, "version"),
        uri=parse_model_uri(fields, "uri"),
        credentials=_parse_credentials(fields.child("credentials")),
        download=_parse_download(fields.child("download")),
        image_volume=fields.choice("imageVolume", ImageVolume.AUTO),
    )
    fields.unknown()
    _check_fetched(fields, spec.uri)
    _check_image_volume(fields, spec)
    return spec


def _parse_credentials(fields: Fields) -> Credentials:
    name = fields.text("secretName")
    if name and (not OBJECT_NAME.fullmatch(name) or len(name) > NAME_LIMIT):
        fields.reject("secretName", name, "a Secret's name")
        name = ""
    fields.unknown()
    return Credentials(name)


def _parse_download(fields: Fields) -> Download:
    limit = fields.text("sizeLimit")
    if limit and not BYTES.fullmatch(limit):
        fields.reject("sizeLimit", limit, "bytes in whole numbers like 20Gi")
        limit = ""
    resources = fields.mapping("resources") or None
    fields.unknown()
    return Download(limit, resources)


def _check_fetched(fields: Fields, uri: ModelUri | None) -> None:
    """That what is said of a download is said of a model that is downloaded."""
    if uri and uri.scheme.is_fetched:
        return
    for name in ("credentials", "download"):
        if fields.raw(name) is not None:
            sentence = "has an effect on a model that is fetched alone; remove it"
            fields.problems.append(Problem(fields.at(name), sentence))


def _check_image_volume(fields: Fields, spec: ModelSpec) -> None:
    """That it is said of an image, and that Always stands beside nothing that it leaves no use."""
    if spec.image_volume is ImageVolume.AUTO:
        return
    if spec.uri is None or spec.uri.scheme is not Scheme.OCI:
        sentence = (
            "is for a model of a registry; remove it, or write a uri oci://REGISTRY/NAME:TAG"
        )
        fields.problems.append(Problem(fields.at("imageVolume"), sentence))
    elif spec.image_volume is ImageVolume.ALWAYS and spec.is_told_to_fetch:
        sentence = (
            "is Always, so the node pulls the image: write imagePullSecrets in place of "
            "credentials and remove download, or write Never"
        )
        fields.problems.append(Problem(fields.at("imageVolume"), sentence))


def _parse_name(fields: Fields, name: str) -> str:
    text = fields.text(name)
    if not text or MODEL_NAME.fullmatch(text):
        return text
    fields.reject(name, text, "letters, digits, '.', '_' and '-'")
    return ""
