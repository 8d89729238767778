"""Names that the API server accepts, and names that it refuses."""

import pytest

from moorage_cli.manifests.object_names import is_namespace_name, is_object_name

LABELS = ["a", "7", "a-b", "0a--b9", "a" * 63]
WRONG = ["", "-a", "a-", "A", "a_b", "ä", "a b", "a\n", ".a", "a.", "a..b", "a.-b", "a-.b"]


@pytest.mark.parametrize("name", [*LABELS, "a.b", "a-b.c-d.7", "a" * 64, "a" * 253])
def test_the_name_of_an_object_consists_of_labels(name: str) -> None:
    assert is_object_name(name)


@pytest.mark.parametrize("name", [*WRONG, "a" * 254])
def test_any_other_name_of_an_object_is_refused(name: str) -> None:
    assert not is_object_name(name)


@pytest.mark.parametrize("name", LABELS)
def test_the_name_of_a_namespace_is_a_label(name: str) -> None:
    assert is_namespace_name(name)


@pytest.mark.parametrize("name", [*WRONG, "a.b", "a" * 64])
def test_any_other_name_of_a_namespace_is_refused(name: str) -> None:
    assert not is_namespace_name(name)
