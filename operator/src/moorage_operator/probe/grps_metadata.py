"""GRPS's YAML texts as the operator's values; pure.

The texts come from servers that are not trusted: they are short or not read, every scalar stays
the text that it is (`version: 1.10` is no number), and an alias costs what it points to once.
Servers write the keys of their configuration files; `inputs`, `outputs` and `ready` are told by
some alone.

Source: GRPS interface, "metadata"; server.yml and inference.yml of the project's servers.
"""

from dataclasses import dataclass
from typing import Any, cast

import yaml

from moorage_operator.answers import ModelInfo, ServerInfo

from . import metadata
from .metadata import NotMetadata

TEXT_LIMIT_CHARACTERS = 64 << 10
"""A longer text is not read: parsing it would hold up every other model."""


@dataclass(frozen=True, slots=True)
class GrpsModel:
    """A model as a server tells of it; `ready` is None where it does not say."""

    name: str
    version: str = ""
    ready: bool | None = None
    info: ModelInfo | None = None


def read_model(text: str, asked: str) -> GrpsModel:
    """The model of a metadata text; of a text that cannot be read only the name is known.

    Args:
        text: YAML.
        asked: The model's name, for a text that does not have it.
    """
    document = _mapping(text)
    if not document:
        return GrpsModel(asked)
    try:
        found = _model(document, asked)
        told = metadata.model(
            found.name,
            [found.version] if found.version else [],
            document.get("inferer_type"),
            metadata.tensors(document.get("inputs"), "inputs"),
            metadata.tensors(document.get("outputs"), "outputs"),
        )
    except NotMetadata:
        return GrpsModel(asked)
    return GrpsModel(found.name, found.version, found.ready, told)


def read_models(text: str) -> tuple[GrpsModel, ...]:
    """The models that a server's metadata text lists."""
    listed: object = _mapping(text).get("models")
    try:
        found = [
            _model(metadata.mapping(item, "models"), "")
            for item in (cast("list[Any]", listed) if isinstance(listed, list) else [])
        ]
    except NotMetadata:
        return ()
    return tuple(found[: metadata.LIST_LIMIT])


def read_server(text: str) -> ServerInfo | None:
    """The server's own name and version, None where it does not tell."""
    document = _mapping(text)
    try:
        return metadata.server(document.get("name"), document.get("version"), None)
    except NotMetadata:
        return None


def _model(document: dict[str, Any], asked: str) -> GrpsModel:
    ready = {"true": True, "false": False}.get(str(document.get("ready")).lower())
    name = metadata.text(document.get("name") or asked, "name")
    return GrpsModel(name, metadata.text(document.get("version") or "", "version"), ready)


def _mapping(text: str) -> dict[str, Any]:
    """The text's top mapping, {} when it is something else."""
    if len(text) > TEXT_LIMIT_CHARACTERS:
        return {}
    try:
        # BaseLoader makes texts, lists and mappings, and no other objects.
        found: object = yaml.load(text, Loader=_LOADER)  # noqa: S506 -- makes no objects
    except (yaml.YAMLError, RecursionError, ValueError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


# libyaml's is ten times as fast; a platform without it has the other.
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
