"""Files of a listing: safe paths, their part names and a declared digest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.fetch.decide.entries import (
    Algorithm,
    Digest,
    Entry,
    Listing,
    checked,
    declared,
)
from moorage_runtime.fetch.decide.failures import BadSource, NotFound


@pytest.mark.parametrize(
    "path",
    ["", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "a\0b", "\ud800", "a\udfff"],
)
def test_a_path_that_leaves_its_folder_is_refused(path):
    with pytest.raises(BadSource) as caught:
        checked([Entry(path, "u", 1)], "s3://b")

    assert (
        str(caught.value) == f"s3://b contains the invalid path {path!r}: must be below a folder"
    )


@pytest.mark.parametrize(
    "path", ["x" * 255, "é" * 127, "/".join(["x" * 199] * 20) + "x", "...", "..a"]
)
def test_a_long_or_dotted_path_is_valid_within_the_limits_of_a_file_system(path):
    assert checked([Entry(path, "u", 1)], "s3://b") == (Entry(path, "u", 1),)


@pytest.mark.parametrize("path", ["x" * 256, "a/" + "é" * 128, "é/" * 1333 + "ab"])
def test_a_path_that_is_too_long_for_a_file_system_is_refused(path):
    with pytest.raises(BadSource) as caught:
        checked([Entry(path, "u", 1)], "s3://b")

    assert str(caught.value) == (
        f"s3://b contains a path that is too long for a file system: {path!r}"
    )


@given(st.text(max_size=60))
def test_a_path_is_refused_or_stays_below_its_folder(path):
    try:
        checked([Entry(path, "u", 1)], "s3://b")
    except BadSource:
        return
    assert not path.startswith("/")
    assert not {"", ".", ".."} & set(path.split("/"))


def test_a_file_may_not_be_a_folder_too():
    with pytest.raises(BadSource) as caught:
        checked([Entry(path, "u", 1) for path in ("a/b/c/d", "a/b")], "s3://b")

    assert str(caught.value) == "s3://b contains 'a/b' both as a file and as a folder"


def test_a_path_may_occur_once():
    with pytest.raises(BadSource) as caught:
        checked([Entry(path, "u", 1) for path in ("a/b", "a/c", "a/b")], "oci://r/n:1")

    assert str(caught.value) == "oci://r/n:1 contains 'a/b' twice"


def test_a_listing_without_files_is_not_found():
    with pytest.raises(NotFound) as caught:
        checked([], "s3://b/a")

    assert str(caught.value) == "s3://b/a contains no files: check the path"


def test_a_model_has_at_most_100000_files():
    entries = [Entry(str(number), "u", 1) for number in range(100_000)]
    assert len(checked(iter(entries), "s3://b")) == 100_000

    with pytest.raises(BadSource) as caught:
        checked([*entries, Entry("one", "u", 1)], "s3://b")
    assert str(caught.value) == (
        "s3://b contains more than 100000 files: check that the path is one model"
    )


def test_another_version_of_an_object_has_another_part_name():
    digest = Digest(Algorithm.MD5, "0" * 32)
    versions = [
        Entry("a", "u", 1, identity="1"),
        Entry("a", "u", 1, identity="2"),
        Entry("b", "u", 1, identity="1"),
        Entry("a", "u", 1, identity="1", digest=digest),
    ]

    assert len({each.part_name for each in versions}) == 4
    assert Entry("a", "another", 1, identity="1").part_name == versions[0].part_name


def test_unknown_sizes_do_not_count():
    assert (
        Listing((Entry("a", "u", 3), Entry("b", "u", None), Entry("c", "u", 4))).known_bytes == 7
    )
    assert str(Digest(Algorithm.GIT_SHA1, "ab")) == "git-sha1:ab"


def test_a_declared_digest_belongs_to_the_only_file():
    entry, digest = Entry("a", "u", 1, identity="1", etag='"1"'), "0" * 64

    assert declared((entry, entry), "", "s3://b") == (entry, entry)
    assert declared((entry,), digest, "s3://b") == (
        Entry("a", "u", 1, digest, '"1"', Digest(Algorithm.SHA256, digest)),
    )
    with pytest.raises(BadSource) as caught:
        declared((entry, entry), digest, "s3://b")
    assert str(caught.value) == ("#sha256= applies to one file, but s3://b contains 2: remove it")
