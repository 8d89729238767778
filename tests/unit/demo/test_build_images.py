"""What `make images` accepts, and the values file that it writes for helm."""

from pathlib import Path

import pytest
import yaml

from build_images import (
    NAMES,
    Part,
    Wanted,
    checked,
    digest_in,
    index_command,
    parts_of,
    values_text,
)
from choice import DemoError
from demo import ROOT
from images import build_arguments

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
        (("", "", "", ""), "REGISTRY is empty: set a registry that you can push to"),
        (("https://registry.example.com", "", "", ""), "without https://"),
        (("registry.example.com/", "", "", ""), "REGISTRY='registry.example.com/' is invalid"),
        (("r.example/team", "a b", "", ""), "TAG='a b' is invalid"),
        (("r.example/team", "", "", "yes"), "PUSH='yes' is invalid: set PUSH=1"),
        (("r.example/team", "", "cuda", ""), "the runtime has no extra 'cuda'"),
        (("r.example/team", "", "", "1", "linux/s390x"), "use linux/amd64 and linux/arm64"),
        (("r.example/team", "", "", "", "linux/arm64"), "needs PUSH=1"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(words, said):
    with pytest.raises(DemoError) as refused:
        checked(*words)

    assert said in str(refused.value)


def test_extras_are_for_the_runtime_alone():
    wanted = Wanted("r.example/team", "1", "openvino tables", push=False)

    assert build_arguments("operator", wanted.extras) == []
    assert build_arguments("runtime", wanted.extras) == ["--build-arg", "EXTRAS=openvino tables"]


@pytest.mark.parametrize(
    ("digests", "expected"),
    [({}, {"tag": "1.0"}), (dict.fromkeys(NAMES, DIGEST), {"digest": DIGEST})],
)
def test_the_values_pin_digests_after_a_push_and_tags_before(digests, expected):
    wanted = Wanted("127.0.0.1:5000/team", "1.0", "", push=bool(digests))

    image = yaml.safe_load(values_text(wanted, digests))["image"]

    assert image == {"registry": "127.0.0.1:5000/team", **dict.fromkeys(NAMES, expected)}


def test_every_dockerfile_is_built_and_its_context_has_what_it_copies():
    assert {path.parent.name for path in ROOT.glob("*/Dockerfile")} == set(NAMES)
    kept = (ROOT / ".dockerignore").read_text().splitlines()
    for name in NAMES:
        assert {f"!{name}/pyproject.toml", f"!{name}/src"} <= set(kept)


def test_an_image_for_several_platforms_is_one_index_with_sbom_and_provenance():
    wanted = checked("r.example/team", "1", "", "1", "linux/amd64,linux/arm64")

    words = [str(word) for word in index_command(wanted, "operator", Path("told.json"))]

    assert words[words.index("--platform") + 1] == "linux/amd64,linux/arm64"
    assert words[words.index("--tag") + 1] == "r.example/team/moorage-operator:1"
    assert {"--sbom=true", "--provenance=mode=max", "--push"} <= set(words)


def test_buildah_builds_one_image_for_each_platform():
    wanted = checked("r.example/team", "1", "", "1", "linux/amd64 linux/arm64,linux/arm64")

    parts = parts_of(wanted.platforms)

    assert parts == (Part("linux/amd64", "-amd64"), Part("linux/arm64", "-arm64"))
    assert [wanted.reference("cli", part) for part in parts] == [
        "r.example/team/moorage-cli:1-amd64",
        "r.example/team/moorage-cli:1-arm64",
    ]
    assert [part.options for part in parts] == [
        ("--platform", "linux/amd64"),
        ("--platform", "linux/arm64"),
    ]


def test_without_platforms_buildah_builds_one_image_of_the_usual_name():
    (part,) = parts_of(())

    assert part.options == ()
    assert Wanted("r.example/team", "1", "", push=True).reference("cli", part) == (
        "r.example/team/moorage-cli:1"
    )


def test_the_last_digest_of_a_push_counts():
    other = "sha256:" + "b" * 64

    assert digest_in(f"{other}: digest: {DIGEST} size: 1", "r.example/a:1") == DIGEST
    with pytest.raises(
        DemoError, match=r"no digest in the output of pushing r\.example/a:1: denied"
    ):
        digest_in("denied\n", "r.example/a:1")
