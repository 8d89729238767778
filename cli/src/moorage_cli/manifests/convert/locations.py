"""Storage locations of other projects as `spec.model.uri`; pure.

Sources: KServe, "Storage Containers", "Modelcars", "Hugging Face"; Seldon Core 2, "Models".
"""

import re
from dataclasses import dataclass

__all__ = ["Location", "LocationError", "kserve_location", "rclone_location"]

_SUPPORTED = "pvc://, configmap://, s3://, gs://, azblob://, hf://, oci:// and https://"
_COPY = "copy the files to one of these and name it with --uri"
_AZURE = re.compile(r"https://([^./]+)\.blob\.core\.windows\.net/([^/?#]+)/?([^?#]*)")
_HUB = re.compile(r"hf://([^/:@]+)/([^/:@]+):([^/:@]+)")
_IMAGE = re.compile(r"oci(?:\+(modelcar|fetch|native))?://(.+)")
_IMAGE_VOLUMES = {"fetch": "Never", "native": "Always"}
_SAME = ("pvc://", "s3://", "gs://", "hf://", "https://", "azblob://", "configmap://")
# KServe reads the model of an image from this folder of it.
_MODELCAR_FOLDER = "models"


class LocationError(ValueError):
    """A location that no store of Moorage holds; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Location:
    """A location as a URI, and a sentence if it differs from the given one.

    Args:
        uri: `spec.model.uri`.
        change: The sentence.
        image_volume: `spec.model.imageVolume`; empty for the default.
    """

    uri: str
    change: str = ""
    image_volume: str = ""


def kserve_location(text: str) -> Location:
    """The location of a KServe storage URI.

    Raises:
        LocationError: The store is not supported.
    """
    if found := _AZURE.fullmatch(text):
        account, container, path = found.groups()
        uri = f"azblob://{account}/{container}" + (f"/{path}" if path else "")
        return Location(uri, f"{uri}, the URI of Azure Blob Storage")
    if found := _HUB.fullmatch(text):
        owner, name, revision = found.groups()
        uri = f"hf://{owner}/{name}@{revision.replace('/', '%2F')}"
        return Location(uri, f"{uri}: the revision follows '@'")
    if found := _IMAGE.fullmatch(text):
        how, image = found.groups()
        named = image if re.search(r":[^/]*$", image) else f"{image}:latest"
        uri = f"oci://{named}?path={_MODELCAR_FOLDER}"
        sentence = f"{uri}: KServe serves the folder /{_MODELCAR_FOLDER} of an image"
        return Location(uri, sentence, _IMAGE_VOLUMES.get(how, ""))
    if text.startswith(_SAME):
        return Location(text)
    raise LocationError(f"no such store; supported are {_SUPPORTED}: {_COPY}")


def rclone_location(text: str) -> Location:
    """The location of an rclone URI, as Seldon Core 2 uses it.

    Raises:
        LocationError: The store is not supported.
    """
    if text.startswith(_SAME):
        return Location(text)
    raise LocationError(
        f"names a remote of an rclone configuration or a local folder; supported are "
        f"{_SUPPORTED}: {_COPY}"
    )
