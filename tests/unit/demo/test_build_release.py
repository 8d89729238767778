"""How `make chart` and `make install.yaml` take over the images of `make images`."""

from pathlib import Path

import pytest
import yaml

import build_release
from build_images import NAMES, Wanted, values_text
from build_release import charts, filled, manifests, parsed, pushed_digest
from choice import DemoError

VALUES = Path(__file__).resolve().parents[3] / "charts" / "moorage" / "values.yaml"
DIGESTS = {name: "sha256:" + letter * 64 for name, letter in zip(NAMES, "abc", strict=True)}
WANTED = Wanted("r.example/team", "1", "", push=True)


def test_the_values_that_make_images_writes_are_read():
    assert parsed(values_text(WANTED, DIGESTS)) == ("r.example/team", DIGESTS)


@pytest.mark.parametrize("digests", [{}, {"operator": DIGESTS["operator"]}])
def test_values_without_all_digests_are_refused(digests):
    assert parsed(values_text(WANTED, digests)) is None


def test_a_released_chart_differs_only_in_its_images():
    before = yaml.safe_load(VALUES.read_text())
    after = yaml.safe_load(filled(VALUES.read_text(), "r.example/team", DIGESTS))

    assert after["image"]["registry"] == "r.example/team"
    assert {name: after["image"][name]["digest"] for name in DIGESTS} == DIGESTS
    after["image"]["registry"] = ""
    for name in DIGESTS:
        after["image"][name]["digest"] = ""
    assert after == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("", "1"), "REGISTRY is empty: set the registry of the images"),
        (("https://r.example", ""), "without https://"),
        (("r.example/team", "yes"), "PUSH='yes' is invalid: set PUSH=1"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(words, said):
    with pytest.raises(DemoError) as refused:
        charts(*words)

    assert said in str(refused.value)


def test_the_digest_of_a_pushed_chart_is_read():
    said = f"Pushed: r.example/team/charts/moorage:0.1.0\nDigest: {DIGESTS['cli']}\n"

    assert pushed_digest(said) == DIGESTS["cli"]
    with pytest.raises(DemoError, match="helm push printed no digest: nothing"):
        pushed_digest("nothing")


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "does not exist"), (values_text(WANTED, {}), "has no digests of pushed images")],
)
def test_without_pushed_images_the_error_says_what_to_run(monkeypatch, tmp_path, content, said):
    values = tmp_path / "values.yaml"
    if content is not None:
        values.write_text(content)
    monkeypatch.setattr(build_release, "ROOT", tmp_path)
    monkeypatch.setattr(build_release, "VALUES", values)

    with pytest.raises(DemoError) as refused:
        manifests()

    assert said in str(refused.value)
    assert "make images REGISTRY=registry.example.com/team PUSH=1" in str(refused.value)


def test_images_of_another_registry_are_refused(monkeypatch, tmp_path):
    values = tmp_path / "values.yaml"
    values.write_text(values_text(WANTED, DIGESTS))
    monkeypatch.setattr(build_release, "ROOT", tmp_path)
    monkeypatch.setattr(build_release, "VALUES", values)

    with pytest.raises(DemoError, match=r"'r\.example/team'"):
        build_release.with_images("r.example/other")
