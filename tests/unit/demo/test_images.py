"""Tags follow from the inputs of an image, and archives of earlier inputs go away."""

import pytest

from choice import DemoError
from images import Image, build_arguments, check_extras, find, stale_archives

OPERATOR = Image("operator", "localhost/moorage-operator", "0.1.0-aaa")
RUNTIME = Image("runtime", "localhost/moorage-runtime", "0.1.0-bbb")


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "operator" / "src").mkdir(parents=True)
    (tmp_path / "operator" / "Dockerfile").write_text("FROM scratch\n")
    (tmp_path / "operator" / "src" / "a.py").write_text("a = 1\n")
    return tmp_path


def test_an_image_is_named_by_version_and_hash(tree):
    image = find(tree, "operator", "0.1.0")

    assert image.reference == f"localhost/moorage-operator:{image.tag}"
    assert image.archive == f"operator-{image.tag}.tar"
    version, _, digest = image.tag.rpartition("-")
    assert (version, len(digest)) == ("0.1.0", 12)


def test_an_unchanged_tree_has_the_same_tag_whatever_python_left_in_it(tree):
    before = find(tree, "operator", "0.1.0")
    (tree / "operator" / "src" / "__pycache__").mkdir()
    (tree / "operator" / "src" / "__pycache__" / "a.cpython-311.pyc").write_bytes(b"x")

    assert find(tree, "operator", "0.1.0") == before


@pytest.mark.parametrize("change", ["text", "name", "new", "version"])
def test_a_change_of_any_input_changes_the_tag(tree, change):
    before = find(tree, "operator", "0.1.0").tag
    source = tree / "operator" / "src" / "a.py"
    match change:
        case "text":
            source.write_text("a = 2\n")
        case "name":
            source.rename(source.with_name("b.py"))
        case "new":
            source.with_name("b.py").write_text("")
        case "version":
            pass
    after = find(tree, "operator", "0.2.0" if change == "version" else "0.1.0").tag
    assert after != before


def test_extras_change_the_tag_and_reach_the_build_of_the_runtime(tree):
    plain, extended = (find(tree, "operator", "0.1.0", extras) for extras in ("", "tables"))

    assert plain.tag != extended.tag
    assert build_arguments("runtime", extended.extras) == ["--build-arg", "EXTRAS=tables"]
    assert build_arguments("runtime", plain.extras) == []


def test_an_unknown_extra_is_refused_with_those_that_exist(tree):
    (tree / "runtime").mkdir()
    for extra in ("tables", "text"):
        (tree / "runtime" / f"requirements-{extra}.txt").write_text("")
    check_extras(tree, "text tables")

    with pytest.raises(DemoError, match="no extra 'table'; use tables, text"):
        check_extras(tree, "text table")


@pytest.mark.parametrize(
    ("names", "stale"),
    [
        (["operator-0.1.0-aaa.tar", "runtime-0.1.0-bbb.tar"], []),
        (["operator-0.1.0-old.tar", "operator-0.1.0-aaa.tar"], ["operator-0.1.0-old.tar"]),
        (["runtime-0.1.0-old.tar.partial"], ["runtime-0.1.0-old.tar.partial"]),
        (["runtime-0.1.0-bbb.tar.partial"], ["runtime-0.1.0-bbb.tar.partial"]),
        (["logs", "client", "cluster", "kubeconfig", "operator-notes.md", "other-1.tar"], []),
        ([], []),
    ],
)
def test_archives_of_earlier_trees_are_stale_and_nothing_else(names, stale):
    assert stale_archives(names, [OPERATOR, RUNTIME]) == stale
