"""Which names a model may have, by protocol and server."""

import pytest

from moorage_operator.api.v1alpha1 import parse
from support.operator_values import body

LONG = "Qwen/Qwen3-8B:Q4_K_M"
SERVER = {"image": "example/server:1"}


def problems(**spec) -> list[str]:
    return [str(each) for each in parse(body(**spec)).problems]


@pytest.mark.parametrize("name", [LONG, "a@b+c", "/models/a", "iris"])
@pytest.mark.parametrize("protocol", ["OpenAI", "None", "Auto"])
def test_a_server_that_is_not_bundled_may_have_a_name_with_slashes(protocol, name):
    paths = {"ready": "/readyz"}

    assert problems(protocol=protocol, runtime=SERVER, paths=paths, model={"name": name}) == []


@pytest.mark.parametrize("protocol", ["OpenInference", "TensorFlowServing", "GRPS"])
def test_a_protocol_with_names_in_url_paths_allows_one_segment(protocol):
    (problem,) = problems(protocol=protocol, runtime=SERVER, model={"name": LONG})

    assert problem.startswith(f"spec.model.name: '{LONG}' is invalid: with protocol {protocol}")
    assert "set protocol to OpenAI if the server speaks it" in problem


def test_a_model_of_the_bundled_runtime_has_a_name_of_one_segment():
    (problem,) = problems(protocol="Auto", model={"name": LONG, "uri": "pvc://models/a"})

    assert problem == (
        f"spec.model.name: '{LONG}' is invalid: the bundled runtime has the name in URL paths, "
        "so it must have only letters, digits, '.', '_' and '-'; rename the model, or set "
        "runtime.image"
    )
