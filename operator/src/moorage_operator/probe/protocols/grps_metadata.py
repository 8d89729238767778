"""Parses the YAML metadata of GRPS; pure.

The text comes from untrusted servers (`yaml_text`). Scalars remain strings: `version: 1.10` is not
a number. Servers use the keys of their configuration files; only some set `inputs`, `outputs` and
`ready`.

Source: GRPS interface, "metadata"; server.yml and inference.yml of the project's servers.
"""

from dataclasses import dataclass
from typing import Any, cast

from moorage_operator.probe.reading import yaml_text
from moorage_operator.values.answers import ModelInfo, ServerInfo

from . import metadata
from .metadata import NotMetadata

_FLAGS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class GrpsModel:
    """A model as described by a server; `ready` is None if it is not reported."""

    name: str
    version: str = ""
    ready: bool | None = None
    info: ModelInfo | None = None


def read_model(text: str, asked: str) -> GrpsModel:
    """Parse the metadata of a model; if that fails, return the name alone.

    Args:
        text: YAML.
        asked: The model's name, in case the text does not contain it.
    """
    document = _mapping(text)
    if not document:
        return GrpsModel(asked)
    try:
        found = _model(document, asked)
        info = metadata.model(
            found.name,
            [found.version] if found.version else [],
            document.get("inferer_type"),
            metadata.tensors(document.get("inputs")),
            metadata.tensors(document.get("outputs")),
        )
    except NotMetadata:
        return GrpsModel(asked)
    return GrpsModel(found.name, found.version, found.ready, info)


def read_models(text: str) -> tuple[GrpsModel, ...]:
    """Parse the models in a server's metadata; those without a name are left out."""
    listed: object = _mapping(text).get("models")
    try:
        found = [
            _model(metadata.mapping(item), "")
            for item in (cast("list[Any]", listed) if isinstance(listed, list) else [])
        ]
    except NotMetadata:
        return ()
    return tuple(each for each in found[: metadata.LIST_LIMIT] if each.name)


def read_server(text: str) -> ServerInfo | None:
    """Parse the server's name and version, None if they are missing."""
    document = _mapping(text)
    try:
        return metadata.server(document.get("name"), document.get("version"), None)
    except NotMetadata:
        return None


def _model(document: dict[str, Any], asked: str) -> GrpsModel:
    flag: object = document.get("ready")
    ready = _FLAGS.get(flag.lower()) if isinstance(flag, str) else None
    name = metadata.text(document.get("name") or asked)
    return GrpsModel(name, metadata.text(document.get("version") or ""), ready)


def _mapping(text: str) -> dict[str, Any]:
    """Parse the top-level mapping, {} if the text is something else."""
    try:
        found = yaml_text.decode(text)
    except yaml_text.NotYaml:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
