"""What `make images` accepts, and the values file that it writes for helm."""

import pytest
import yaml

from build_images import Wanted, arguments, checked, values_text
from choice import DemoError

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    "registry",
    ["registry.example.com/team", "127.0.0.1:5000/team", "ghcr.io/org/sub-path", "localhost:5000"],
)
def test_a_registry_with_its_path_is_accepted(registry):
    wanted = checked(registry, "1.2", "", "1")

    assert wanted.reference("operator") == f"{registry}/moorage-operator:1.2"
    assert wanted.push


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("", "", "", ""), "REGISTRY='' is invalid: set a registry that you can push to"),
        (("https://registry.example.com", "", "", ""), "without https://"),
        (("registry.example.com/", "", "", ""), "REGISTRY='registry.example.com/' is invalid"),
        (("r.example/team", "a b", "", ""), "TAG='a b' is invalid"),
        (("r.example/team", "", "", "yes"), "PUSH='yes' is invalid: set PUSH=1"),
        (("r.example/team", "", "cuda", ""), "the runtime has no extra 'cuda'"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(words, said):
    with pytest.raises(DemoError) as refused:
        checked(*words)

    assert said in str(refused.value)


def test_extras_are_for_the_runtime_alone():
    wanted = Wanted("r.example/team", "1", "openvino tables", push=False)

    assert arguments(wanted, "operator") == []
    assert arguments(wanted, "runtime") == ["--build-arg", "EXTRAS=openvino tables"]


@pytest.mark.parametrize(
    ("digests", "expected"),
    [({}, {"tag": "1.0"}), ({"operator": DIGEST, "runtime": DIGEST}, {"digest": DIGEST})],
)
def test_the_values_pin_digests_after_a_push_and_tags_before(digests, expected):
    wanted = Wanted("127.0.0.1:5000/team", "1.0", "", push=bool(digests))

    image = yaml.safe_load(values_text(wanted, digests))["image"]

    assert image == {"registry": "127.0.0.1:5000/team", "operator": expected, "runtime": expected}
