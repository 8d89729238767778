"""All children of whole models, as the API server gets them.

Each file of `manifests` has a spec and its children. Another pod template has another revision, so
an operator with it replaces the pods of every model at its upgrade. A changed child is written
again for every model.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from moorage_operator.decide.plan import plan
from moorage_operator.values.observed import Observed
from support.operator_values import CONFIG, NOW, model

FOLDER = Path(__file__).parent / "manifests"
MANIFESTS = {path.stem: yaml.safe_load(path.read_text()) for path in FOLDER.glob("*.yaml")}
INSTALLED = frozenset({"HTTPRoute", "GRPCRoute", "ScaledObject"})


@pytest.mark.parametrize("name", sorted(MANIFESTS))
def test_a_model_has_the_children_of_its_file(name: str) -> None:
    of = model(**MANIFESTS[name]["spec"])
    config = replace(CONFIG, namespace="moorage-system")
    assert of.problems == ()

    planned = plan(of, Observed(available_kinds=INSTALLED), now=NOW, config=config)

    assert list(planned.objects) == MANIFESTS[name]["children"]
