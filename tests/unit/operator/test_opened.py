"""Which models stay parsed."""

from typing import Any

import pytest

from moorage_operator.opened import MANY, OPEN, OPEN_UNREADY, OpenModels
from moorage_operator.packing import ModelPacker
from moorage_operator.state import ObjectKey


def body(name: str, *, ready: str = "", version: int = 1, generation: int = 1) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
        "generation": generation,
    }
    return {"metadata": metadata, "spec": {}, "status": {"conditions": conditions}}


def kept(models: int, opened: int, *, ready: str = "") -> int:
    """Of so many models, how many of those that were opened are still parsed."""
    packer = ModelPacker()
    here = OpenModels(packer, count=lambda: models)
    keys = [ObjectKey("ns", f"m-{number}") for number in range(opened)]
    for key in keys:
        here.open(key, packer.pack(body(key.name, ready=ready)))
    return sum(here.close(key) is not None for key in keys)


@pytest.mark.parametrize(
    ("models", "ready", "expected"),
    [
        (MANY, "", OPEN_UNREADY),
        (MANY, "False", OPEN_UNREADY),
        (MANY, "True", OPEN),
        (MANY + 1, "", OPEN),
        (MANY + 1, "True", OPEN),
    ],
)
def test_so_many_models_stay_parsed(models: int, ready: str, expected: int) -> None:
    assert kept(models, OPEN_UNREADY + 1, ready=ready) == expected


def test_a_model_stays_the_same_object_as_long_as_its_spec_does() -> None:
    packer = ModelPacker()
    here = OpenModels(packer, count=lambda: 1)
    key = ObjectKey("ns", "iris")
    first = here.open(key, packer.pack(body("iris")))
    told = body("iris", ready="True", version=2)

    assert here.renew(key, packer.pack(told), told)
    renewed = here.open(key, packer.pack(told))
    assert renewed.model is first.model
    assert (renewed.resource_version, renewed.status) == ("2", told["status"])

    edited = body("iris", ready="True", version=3, generation=2)
    assert not here.renew(key, packer.pack(edited), edited)
    assert here.open(key, packer.pack(edited)).model.generation == 2
