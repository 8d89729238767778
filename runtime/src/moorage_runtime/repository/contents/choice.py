"""Selects the versions of a model to serve and builds its metadata; no I/O.

ModelLayout, ModelConfig -> versions -> loader; LoadedModel, ModelConfig -> metadata
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from moorage_runtime.backends.base import HttpModel, LoadedModel
from moorage_runtime.repository.contents import config as model_config
from moorage_runtime.repository.contents.config import LatestVersions, ModelConfig
from moorage_runtime.repository.contents.layout import ModelLayout, VersionLayout
from moorage_runtime.values.errors import InvalidConfig
from moorage_runtime.values.inference import ModelMetadata

# A version that is a number for TensorFlow Serving clients by its name.
_OWN_NUMBER: Final = re.compile(r"[vV]?([0-9]{1,18})")


def wanted(layout: ModelLayout, config: ModelConfig, latest: int) -> tuple[VersionLayout, ...]:
    """The versions that the configuration selects, otherwise the latest ones; 0 selects all.

    Raises:
        InvalidConfig: It names a version that has no folder, or that is not served, or gives a
            version a number that it cannot have.
    """
    have = layout.versions
    _check_numbers(have, config.version_numbers)
    if isinstance(config.versions, LatestVersions):
        latest = config.versions.latest
    elif config.versions is not None:
        _check_versions(have, {f"versions[{i}]": v for i, v in enumerate(config.versions)})
        have = tuple(item for item in have if item.version in config.versions)
        latest = 0
    have = have[-latest:]
    fields = {f"labels.{label}": version for label, version in config.labels.items()}
    if config.default_version is not None:
        fields["default_version"] = config.default_version
    _check_versions(have, fields)
    return have


def without_folder(layout: ModelLayout, config: ModelConfig) -> tuple[str, ...]:
    """The versions that have a number but no folder.

    No request can name them, so unlike the version of a label, they are no error: numbers may
    outlive the versions that a retention policy removes.
    """
    have = {item.version for item in layout.versions}
    return tuple(version for version in config.version_numbers if version not in have)


def for_loading(config: ModelConfig) -> ModelConfig:
    """The configuration without the fields that can change while a model is loaded."""
    return msgspec.structs.replace(
        config,
        platform=None,
        default_version=None,
        default=False,
        versions=None,
        signatures={},
        labels={},
        version_numbers={},
    )


def metadata(name: str, version: str, loaded: LoadedModel, config: ModelConfig) -> ModelMetadata:
    """The metadata of a version of a model.

    Raises:
        InvalidConfig: A configured signature names a tensor that the model does not have.
    """
    _check_signatures(config, loaded)
    return ModelMetadata(
        name,
        version,
        (version,),
        config.platform or loaded.platform,
        loaded.inputs,
        loaded.outputs,
        batching=model_config.has_batch(config, loaded.inputs, loaded.outputs),
        dynamic=loaded.dynamic,
        signatures=model_config.signatures(config) or loaded.signatures,
        labels=config.labels,
        version_numbers=config.version_numbers,
        http_path=loaded.http_path if isinstance(loaded, HttpModel) else "",
        http_predict=isinstance(loaded, HttpModel) and loaded.http_predict,
    )


def _check_signatures(config: ModelConfig, loaded: LoadedModel) -> None:
    for name, signature in config.signatures.items():
        for field, tensors, specs in (
            ("inputs", signature.inputs, loaded.inputs),
            ("outputs", signature.outputs, loaded.outputs),
        ):
            names = [spec.name for spec in specs]
            for key, tensor in tensors.items():
                if tensor not in names:
                    raise InvalidConfig(
                        f"model.yaml: signatures.{name}.{field}.{key}: the model has no tensor "
                        f"'{tensor}': must be one of {', '.join(names) or 'none'}"
                    )


def _check_numbers(have: Sequence[VersionLayout], numbers: Mapping[str, int]) -> None:
    """Refuse numbers without effect: a number in the name of a version takes precedence."""
    own = {item.version: int(n[1]) for item in have if (n := _OWN_NUMBER.fullmatch(item.version))}
    taken = {number: version for version, number in own.items()}
    for version, number in numbers.items():
        if own.get(version, number) != number:
            raise InvalidConfig(
                f"model.yaml: version_numbers.{version}: {number} is invalid: version '{version}' "
                f"has the number {own[version]} in its name"
            )
        has_folder = version not in own and any(item.version == version for item in have)
        if has_folder and taken.setdefault(number, version) != version:
            raise InvalidConfig(
                f"model.yaml: version_numbers.{version}: {number} is already the number of "
                f"version '{taken[number]}': must be unique"
            )


def _check_versions(have: Sequence[VersionLayout], fields: Mapping[str, str]) -> None:
    names = [item.version for item in have]
    for field, version in fields.items():
        if version not in names:
            raise InvalidConfig(
                f"model.yaml: {field}: version '{version}' does not exist: must be one of "
                f"{', '.join(names)}"
            )
