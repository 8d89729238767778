"""`spec.model`: the model, the location of its files, and how to download them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .fields import Fields
from .hostnames import OBJECT_NAME
from .model_names import parse_model_name, parse_model_version
from .model_uri import ModelUri, Scheme, parse_model_uri
from .uri_patterns import NAME_LIMIT

__all__ = [
    "BYTES",
    "FORMAT",
    "FORMAT_EXPECTED",
    "Credentials",
    "Download",
    "Files",
    "ImageVolume",
    "ModelSpec",
    "parse_model",
    "parse_object_name",
]

# The name of a model format, which an InferenceRuntime lists.
FORMAT = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
FORMAT_EXPECTED = (
    "1 to 63 lowercase letters, digits, '.' and '-', with a letter or digit at both ends, such as "
    "savedmodel"
)
# A number of bytes, so without milli and without a fraction.
BYTES = re.compile(r"[1-9][0-9]{0,17}([kMGTP]|[KMGTP]i)?")
# A pattern of files is one line and relative.
FILE_PATTERN = re.compile(r"[^/ \t\r\n][^\r\n]*")
PATTERN_LENGTH = 256
PATTERN_COUNT = 32


@dataclass(frozen=True, slots=True)
class Credentials:
    """`spec.model.credentials`; an empty name means no Secret."""

    secret_name: str = ""


@dataclass(frozen=True, slots=True)
class Download:
    """`spec.model.download`: the volume for a downloaded model, and the downloader's resources.

    An empty `size_limit` means no limit other than the node's disk. If `resources` is None, the
    operator's defaults apply.
    """

    size_limit: str = ""
    resources: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Files:
    """`spec.model.files`: patterns of the files to download; without any, all files."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class ImageVolume(StrEnum):
    """`spec.model.imageVolume`: whether the node mounts an image from a registry as a volume."""

    AUTO = "Auto"
    ALWAYS = "Always"
    NEVER = "Never"


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """`spec.model` with the default `name`; with an empty `version` the server chooses one.

    `trusted` lets the bundled runtime load files that can run code, such as pickles. `format`
    selects an InferenceRuntime; "" if the spec has none.
    """

    name: str
    version: str = ""
    uri: ModelUri | None = None
    credentials: Credentials = Credentials()
    download: Download = Download()
    files: Files = Files()
    image_volume: ImageVolume = ImageVolume.AUTO
    trusted: bool = False
    format: str = ""

    def is_mounted_image(self, *, available: bool) -> bool:
        """Whether the node mounts the image; otherwise an init container downloads the model.

        Settings for a download only apply to an init container, so with them, Auto chooses one.

        Args:
            available: Whether the cluster supports image volumes.
        """
        if self.uri is None or self.uri.scheme is not Scheme.OCI:
            return False
        if self.image_volume is ImageVolume.AUTO:
            return available and not self.has_download_settings
        return self.image_volume is ImageVolume.ALWAYS

    @property
    def has_download_settings(self) -> bool:
        """Whether the spec has settings that only apply to an init container."""
        return (self.credentials, self.download, self.files) != (
            Credentials(), Download(), Files()
        )  # fmt: skip


def parse_model(fields: Fields, resource_name: str) -> ModelSpec:
    """Read `spec.model` and fill in its defaults; record invalid values as problems."""
    spec = ModelSpec(
        name=parse_model_name(fields, resource_name),
        version=parse_model_version(fields),
        uri=parse_model_uri(fields, "uri"),
        credentials=_parse_credentials(fields.child("credentials")),
        download=_parse_download(fields.child("download")),
        files=_parse_files(fields.child("files")),
        image_volume=fields.choice("imageVolume", ImageVolume.AUTO),
        trusted=fields.flag("trusted", default=False),
        format=_parse_format(fields),
    )
    fields.unknown()
    if spec.uri or not fields.peek("uri"):
        _check_fetched(fields, spec.uri)
        _check_image_volume(fields, spec)
    return spec


def parse_object_name(fields: Fields, field: str, kind: str) -> str:
    """Read the name of an object, "" if it is absent; `kind` has its article for the message."""
    name = fields.text(field)
    if not name or (OBJECT_NAME.fullmatch(name) and len(name) <= NAME_LIMIT):
        return name
    fields.reject(field, name, f"a valid name of {kind}")
    return ""


def _parse_format(fields: Fields) -> str:
    text = fields.text("format")
    if not text or FORMAT.fullmatch(text):
        return text
    fields.reject("format", text, FORMAT_EXPECTED)
    return ""


def _parse_credentials(fields: Fields) -> Credentials:
    name = parse_object_name(fields, "secretName", "a Secret")
    fields.unknown()
    return Credentials(name)


def _parse_download(fields: Fields) -> Download:
    limit = fields.text("sizeLimit")
    if limit and not BYTES.fullmatch(limit):
        expected = "a whole number of bytes, optionally with a unit, such as 20Gi"
        fields.reject("sizeLimit", limit, expected)
        limit = ""
    resources = fields.mapping("resources") or None
    fields.unknown()
    return Download(limit, resources)


def _parse_files(fields: Fields) -> Files:
    include, exclude = (_parse_patterns(fields, name) for name in ("include", "exclude"))
    fields.unknown()
    return Files(include, exclude)


def _parse_patterns(fields: Fields, name: str) -> tuple[str, ...]:
    found = fields.texts(name)
    if len(found) > PATTERN_COUNT:
        fields.reject_length(name, len(found), PATTERN_COUNT, "patterns")
        return ()
    for text in found:
        if not FILE_PATTERN.fullmatch(text) or len(text) > PATTERN_LENGTH:
            fields.reject(
                name, text, f"a pattern of at most {PATTERN_LENGTH} characters for the path of a "
                "file below the URI, such as *.onnx or onnx/*, without a leading slash",
            )  # fmt: skip
            return ()
    return found


def _check_fetched(fields: Fields, uri: ModelUri | None) -> None:
    """Reject download settings of a model that is not downloaded."""
    if uri and uri.scheme.is_fetched:
        return
    for name in ("credentials", "download", "files"):
        if fields.has(name):
            sentence = (
                "applies only to a downloaded model; remove it, or set uri to a location such as "
                "s3://BUCKET/PATH"
            )
            fields.report(name, sentence)


def _check_image_volume(fields: Fields, spec: ModelSpec) -> None:
    """Reject imageVolume without an image, and Always together with download settings."""
    if spec.image_volume is ImageVolume.AUTO:
        return
    if spec.uri is None or spec.uri.scheme is not Scheme.OCI:
        sentence = (
            "applies only to an image in a registry; remove it, or set uri to "
            "oci://REGISTRY/NAME:TAG"
        )
        fields.report("imageVolume", sentence)
    elif spec.image_volume is ImageVolume.ALWAYS and spec.has_download_settings:
        sentence = (
            "with Always the node pulls the whole image; remove credentials, download and files "
            "and set imagePullSecrets, or set imageVolume to Never"
        )
        fields.report("imageVolume", sentence)
