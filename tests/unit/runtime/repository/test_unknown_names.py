"""The errors for unknown models and versions say which exist, and that a long list is cut."""

import pytest

from moorage_runtime.repository.registry import Registry, Version
from moorage_runtime.values.errors import ModelNotFound, VersionNotFound


def filled(models: int, versions: int) -> Registry:
    registry = Registry()
    registry.is_scanned = True
    for number in range(10, 10 + models):
        model = registry.model(f"m{number}")
        for version in range(10, 10 + versions):
            model.versions[f"{version}"] = Version(model.name, f"{version}")
        registry.changed(model)
    return registry


@pytest.mark.parametrize(("count", "end"), [(2, "'m10', 'm11'"), (20, "'m29'"), (21, "'m29', …")])
def test_an_unknown_model(count, end):
    with pytest.raises(ModelNotFound) as error:
        filled(count, 1).find("x", "")

    assert error.value.message.startswith("unknown model 'x': must be one of 'm10', ")
    assert error.value.message.endswith(end)


@pytest.mark.parametrize(("count", "end"), [(1, "one of '10'"), (20, "'29'"), (21, "'29', …")])
def test_an_unknown_version(count, end):
    with pytest.raises(VersionNotFound) as error:
        filled(1, count).find("m10", "7")

    assert error.value.message.startswith("model 'm10' has no version '7': must be one of '10'")
    assert error.value.message.endswith(end)


def test_no_models():
    with pytest.raises(ModelNotFound, match="unknown model 'x': must be one of none"):
        filled(0, 0).find("x", "")
