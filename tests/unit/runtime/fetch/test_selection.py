"""Patterns of files: which paths they select, and what happens to the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.fetch.decide.entries import Entry, Listing
from moorage_runtime.fetch.decide.failures import NotFound
from moorage_runtime.fetch.decide.selection import Selection, select
from moorage_runtime.fetch.transfer.pruning import prune

PATHS = st.text("ab.*?[]/", min_size=1, max_size=12)
HUB = ("config.json", "model.safetensors", "onnx/model.onnx", "onnx/model_q4.onnx", "a.b/c")


def listing(*paths: str) -> Listing:
    return Listing(tuple(Entry(path, f"u/{path}", 1) for path in paths))


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        ((), (), HUB),
        (("*.json",), (), ("config.json",)),
        (("*.onnx",), (), ("onnx/model.onnx", "onnx/model_q4.onnx")),
        (("onnx/",), (), ("onnx/model.onnx", "onnx/model_q4.onnx")),
        (("onnx/*",), ("*_q?.onnx",), ("onnx/model.onnx",)),
        ((), ("*.safetensors", "onnx/*", "a.b/*"), ("config.json",)),
        (("[ac]*", "model.safetensors"), (), ("config.json", "model.safetensors", "a.b/c")),
        (("config.json", "absent"), (), ("config.json",)),
        (("CONFIG.json", "a?b/c"), (), ("a.b/c",)),
        (("config", "onnx", "a.b/c"), (), ("a.b/c",)),
    ],
)
def test_patterns_select_paths(include, exclude, expected):
    found = select(listing(*HUB), Selection(include, exclude), "hf://o/n")

    assert tuple(entry.path for entry in found.entries) == expected


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        (Selection(("*.bin", "*.pt")), "include *.bin *.pt"),
        (Selection((), ("*",)), "exclude *"),
        (Selection(("a",), ("b", "*")), "include a, exclude b *"),
    ],
)
@pytest.mark.parametrize(("paths", "more"), [(HUB, ""), ((*HUB, "z1", "z2"), " and 2 more")])
def test_patterns_that_select_nothing_are_a_failure_with_some_names(selection, words, paths, more):
    with pytest.raises(NotFound) as caught:
        select(listing(*reversed(paths)), selection, "hf://o/n")

    assert str(caught.value) == (
        f"no file of hf://o/n is selected by model.files ({words}): it contains a.b/c, "
        f"config.json, model.safetensors, onnx/model.onnx, onnx/model_q4.onnx{more}"
    )


@given(PATHS, st.lists(PATHS, max_size=3), st.lists(PATHS, max_size=3))
def test_more_patterns_to_exclude_never_select_more(path, include, exclude):
    fewer = Selection(tuple(include), tuple(exclude)).takes(path)

    assert not fewer or Selection(tuple(include)).takes(path)
    assert not Selection((), (*exclude, "*")).takes(path)


def test_a_path_in_an_image_is_not_part_of_the_patterns():
    selection = Selection(("model.onnx",), folder="models/iris")

    assert selection.takes("models/iris/model.onnx")
    assert not selection.takes("models/iris/other/model.onnx")
    assert Selection(("model.onnx",), folder="a/b/model.onnx").takes("a/b/model.onnx")


def test_the_listing_of_an_image_keeps_its_layers():
    layer = Entry("layer-1", "u", 1, layer=True)

    assert select(Listing((layer,)), Selection(("*.onnx",)), "oci://r/n:1").entries == (layer,)


def make(folder, *paths):
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)


def test_a_folder_is_pruned_to_the_selected_files(tmp_path):
    make(tmp_path, "a/b/c.onnx", "a/d.txt", "e/f.txt", "g.onnx")

    prune(tmp_path, Selection(("*.onnx",)), "what")

    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert found == {"a", "a/b", "a/b/c.onnx", "g.onnx"}


def test_pruning_everything_is_a_failure(tmp_path):
    make(tmp_path, "a/b.txt")

    with pytest.raises(NotFound, match=r"\*\.onnx.*a/b\.txt"):
        prune(tmp_path, Selection(("*.onnx",)), "what")
