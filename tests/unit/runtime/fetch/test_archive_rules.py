"""Members of archives and whiteouts of layers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.fetch.decide.archive_rules import (
    Budget,
    Whiteout,
    is_archive,
    is_metadata,
    member_path,
    whiteout,
)
from moorage_runtime.fetch.decide.failures import Corrupt, NoSpace


@given(st.text(max_size=60))
def test_a_member_is_refused_or_is_below_the_folder(name):
    try:
        path = member_path(name, "a.tar")
    except Corrupt:
        return
    assert not path.startswith("/")
    assert ".." not in path.split("/")


@pytest.mark.parametrize(
    ("path", "gone"),
    [
        ("a/.wh.b", Whiteout("a/b", is_opaque=False)),
        (".wh.b", Whiteout("b", is_opaque=False)),
        (".wh....", Whiteout("...", is_opaque=False)),
        ("a/.wh..wh..opq", Whiteout("a", is_opaque=True)),
        (".wh..wh..opq", Whiteout("", is_opaque=True)),
        ("a/b", None),
        ("a/.whb", None),
    ],
)
def test_whiteouts_of_layers_are_recognized(path, gone):
    assert whiteout(path, "layer") == gone


@pytest.mark.parametrize(
    ("path", "gone"), [(".wh.", ""), (".wh..", "."), (".wh...", ".."), ("a/.wh...", "..")]
)
def test_a_whiteout_that_names_no_file_is_refused(path, gone):
    with pytest.raises(Corrupt) as caught:
        whiteout(path, "layer-1")

    assert str(caught.value) == (
        f"layer-1 has a whiteout {path!r} that removes {gone!r}: must be .wh.NAME; rebuild the "
        "image"
    )


@pytest.mark.parametrize("path", [".wh.a/b", ".wh..../b", "a/.wh.b/c/.wh.d"])
def test_a_member_in_a_folder_with_the_name_of_a_whiteout_is_refused(path):
    with pytest.raises(Corrupt) as caught:
        whiteout(path, "layer-1")

    assert str(caught.value) == (
        f"layer-1 has a member {path!r} in a folder whose name is reserved for whiteouts "
        "(.wh.NAME): rebuild the image"
    )


def test_a_long_path_is_cut_in_a_message():
    long = "x" * 90
    for path, words in [
        (f".wh.a/{long}", f"has a member '.wh.a/{'x' * 74}' in"),
        (f"{long}/.wh.", f"has a whiteout '{'x' * 80}' that"),
    ]:
        with pytest.raises(Corrupt) as caught:
            whiteout(path, "layer-1")
        assert words in str(caught.value)
    with pytest.raises(Corrupt) as caught:
        member_path(f"/{long}", "a.tar")
    assert f"has a member '/{'x' * 79}' outside" in str(caught.value)


@given(st.lists(st.sampled_from([".wh.", ".wh..", ".wh...", ".", "..", "a", ".wh.a", ""])))
def test_a_whiteout_is_refused_or_removes_something_below_the_folder(parts):
    try:
        gone = whiteout(member_path("/".join(parts), "a"), "a")
    except Corrupt:
        return
    if gone is not None:
        assert gone.path
        assert not {"", ".", ".."} & set(gone.path.split("/"))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".wh..wh.plnk", True), (".wh..wh.plnk/1.2", True), ("a/.wh..wh.aufs", True),
        ("a/.wh..wh..opq", False), (".wh..wh..opq/a", True), ("a/.wh.b", False), ("a", False),
    ],
)  # fmt: skip
def test_metadata_of_a_union_file_system_is_recognized(path, expected):
    assert is_metadata(path) is expected


@pytest.mark.parametrize(
    ("gone", "keep", "expected"),
    [
        ("a", "", True), ("a", "a", True), ("a/b", "a", True), ("a", "a/b", True),
        ("", "a", True), ("", "", True), ("ab", "a", False), ("a", "ab", False), ("b", "a", False),
    ],
)  # fmt: skip
def test_a_whiteout_concerns_the_folder_that_is_kept(gone, keep, expected):
    assert Whiteout(gone, is_opaque=False).concerns(keep) is expected


def test_a_budget_limits_bytes():
    budget = Budget(1536)
    budget.spend(512, "a.tar")
    budget.spend(1, "a.tar")

    with pytest.raises(NoSpace) as caught:
        budget.spend(1024, "a.tar")
    assert str(caught.value) == (
        "a.tar contains more than 1023 B, the free space on the volume: raise "
        "model.download.sizeLimit, or check the archive"
    )
    budget.spend(1023, "a.tar")
    with pytest.raises(NoSpace, match=r"^a\.tar contains more than 0 B, the free"):
        budget.spend(1, "a.tar")


def test_a_budget_limits_members():
    budget = Budget(0)
    for _ in range(100_000):
        budget.spend_member("a.tar")

    with pytest.raises(Corrupt) as caught:
        budget.spend_member("a.tar")
    assert str(caught.value) == (
        "a.tar has too many members: must have 100000 or fewer; check that it contains one model"
    )


def test_a_volume_that_is_more_than_full_has_no_room():
    with pytest.raises(NoSpace, match="more than 0 B,"):
        Budget(-5).spend(0, "a.tar")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("m.tar", True), ("m.tar.gz", True), ("M.TGZ", True), ("m.tar.bz2", True),
        ("m.tbz2", True), ("m.tar.xz", True), ("m.txz", True), ("m.zip", True),
        ("m.onnx", False), ("m.gz", False), ("tar", False), ("m.zip.onnx", False),
    ],
)  # fmt: skip
def test_an_archive_is_recognized_by_its_suffix(name, expected):
    assert is_archive(name) is expected


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a/b", "a/b"), ("./a//b/.", "a/b"), ("./", ""), ("", ""), ("a..b/...", "a..b/..."),
        ("a\\b", "a\\b"),
        ("x" * 255, "x" * 255), ("é" * 127, "é" * 127), ("\udcff" * 255, "\udcff" * 255),
    ],
)  # fmt: skip
def test_a_member_is_below_the_folder(name, path):
    assert member_path(name, "a.tar") == path


@pytest.mark.parametrize("name", ["/a", "..", "a/../b", "a\0b", "x" * 256, "a/" + "é" * 128])
def test_a_member_outside_of_the_folder_is_refused(name):
    with pytest.raises(Corrupt) as caught:
        member_path(name, "a.tar")

    assert str(caught.value) == (
        f"a.tar has a member {name[:80]!r} outside of the archive's own folder: create the "
        "archive with relative names"
    )
