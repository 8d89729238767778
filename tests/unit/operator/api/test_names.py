"""The names and labels of children are valid in Kubernetes and unique for each model."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.api import labels, names

SERVICE_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
PART = r"[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?"
model_names = st.from_regex(rf"{PART}(\.{PART}){{0,3}}", fullmatch=True).filter(
    lambda name: len(name) <= 253
)


@pytest.mark.parametrize("name", ["iris", "a", "a-1", "m" * 63])
def test_a_name_that_fits_is_kept(name):
    assert names.service(name) == names.deployment(name) == name
    assert labels.model_value(name) == name


@pytest.mark.parametrize(
    ("name", "start"), [("iris.v1", "iris-v1-"), ("1st", "m-1st-"), ("m" * 64, "m" * 54)]
)
def test_a_name_that_does_not_fit_stays_readable_and_gets_a_hash(name, start):
    assert names.service(name).startswith(start)
    assert names.service(name) != name


@pytest.mark.parametrize(
    "name_of",
    [
        names.deployment,
        names.autoscaler,
        names.disruption_budget,
        names.network_policy,
        names.ingress,
        names.route,
    ],
)
@pytest.mark.parametrize("model", ["iris", "iris.v1", "m" * 64])
def test_a_child_that_a_model_has_once_has_the_name_of_its_service(name_of, model):
    assert name_of(model) == names.service(model)


@pytest.mark.parametrize("name_of", [names.deployment_of, names.kept_revision, names.service_of])
def test_a_child_of_a_revision_has_the_revision_in_its_name(name_of):
    assert name_of("iris", "4c1f0a9d2e") == "iris-4c1f0a9d2e"
    assert name_of("iris.v1", "4c1f0a9d2e") == f"{names.service('iris.v1')}-4c1f0a9d2e"

    long = name_of("m" * 60, "4c1f0a9d2e")
    assert (long[:54], len(long)) == ("m" * 54, 63)
    assert long != name_of("m" * 60, "5d8c0a9d2e")


def test_a_shortened_name_has_exactly_as_many_characters_as_a_label():
    assert len(names.with_hash("m" * 100, "whole")) == 63
    assert len(names.shortened("m" * 64)) == 63


@given(model_names)
def test_every_model_gets_valid_names_and_labels(name):
    assert SERVICE_NAME.fullmatch(names.service(name))
    assert all(LABEL_VALUE.fullmatch(value) for value in labels.pod(name, "abc").values())


@given(st.lists(model_names, min_size=2, max_size=2, unique=True))
def test_two_models_share_no_child_and_no_selector(pair):
    assert names.service(pair[0]) != names.service(pair[1])
    assert labels.selector(pair[0]) != labels.selector(pair[1])


@pytest.mark.parametrize(
    "name", ["m" * 64, "m" * 53 + "." + "m" * 60, "m" * 53 + "-" + "m" * 60, "1" * 70]
)
def test_a_name_like_a_shortened_name_has_its_own_children(name):
    for taken in (labels.model_value(name), names.service(name)):
        assert labels.model_value(taken) != labels.model_value(name)
        assert names.service(taken) != names.service(name)
        assert labels.selector(taken) != labels.selector(name)


def test_pods_have_the_selectors_labels_without_the_revision():
    pod = labels.pod("iris", "abc")

    assert labels.selector("iris").items() <= pod.items()
    assert pod[labels.REVISION] == "abc"
    assert labels.REVISION not in labels.selector("iris")
    assert labels.selector_text("iris") == (
        "app.kubernetes.io/managed-by=moorage,moorage.dev/model=iris"
    )


LONG = "m" * 56
REVISION = "0123456789"


@pytest.mark.parametrize("model", ["iris", "a.b", "m" * 52, "m" * 53, LONG, "m" * 100])
def test_the_names_of_children_are_recognized(model):
    for name in (names.service(model), names.deployment_of(model, REVISION)):
        assert names.is_of(model, name)
        assert not names.is_of("other", name)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("iris", "iris-debug"),
        ("iris", "iris-0123456789a"),
        ("iris", "iris-012345678g"),
        ("iris", "iris0123456789"),
        ("iris", "my-iris"),
        (LONG, f"{LONG}-debug"),
        (LONG, f"{'n' * 54}-01234567"),
        ("m" * 53, f"{'m' * 54}-01234567"),
        ("m" * 52, f"{'m' * 52}-a-01234567"),
    ],
)
def test_other_names_are_not(model, name):
    assert not names.is_of(model, name)
