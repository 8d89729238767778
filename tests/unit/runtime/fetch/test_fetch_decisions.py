"""The pure decisions of a fetch: signatures, redirects, retries, amounts of bytes, paths."""

import contextlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.fetch.decide import answers, archive_rules
from moorage_runtime.fetch.decide.amounts import in_bytes, parse_quantity
from moorage_runtime.fetch.decide.entries import Entry, checked
from moorage_runtime.fetch.decide.failures import (
    BadSource,
    Changed,
    Corrupt,
    Denied,
    FetchError,
    NoSpace,
    NotFound,
    Unreachable,
)
from moorage_runtime.fetch.decide.redirects import follow
from moorage_runtime.fetch.decide.sigv4 import AccessKey, canonical_query, quoted_path, sign
from moorage_runtime.fetch.transfer import retries
from moorage_runtime.fetch.transfer.progress import line

NOW = datetime(2013, 5, 24, tzinfo=UTC)
# Amazon S3 API Reference, "Examples: Signature Calculations"
KEY = AccessKey("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
BUCKET = "https://examplebucket.s3.amazonaws.com"


@pytest.mark.parametrize(
    ("url", "headers", "signature"),
    [
        (
            "/test.txt",
            {"Range": "bytes=0-9"},
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        ("?lifecycle=", {}, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        (
            "?prefix=J&max-keys=2",
            {},
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ],
    ids=["an object", "a subresource", "a listing"],
)
def test_signatures_equal_those_of_amazons_examples(url, headers, signature):
    sent = sign("GET", BUCKET + url, headers, key=KEY, region="us-east-1", now=NOW)

    assert sent["authorization"].endswith(f"Signature={signature}")
    assert sent["x-amz-date"] == "20130524T000000Z"


def test_a_session_token_is_signed():
    key = AccessKey("id", "secret", "token")

    sent = sign("GET", f"{BUCKET}/a", {}, key=key, region="us-east-1", now=NOW)

    assert sent["x-amz-security-token"] == "token"
    assert "x-amz-security-token," not in sent["authorization"].split("Signature=")[1]
    assert "x-amz-security-token" in sent["authorization"]
    assert "secret" not in repr(key)
    assert "token" not in repr(key).replace("token=", "")


def test_paths_and_queries_are_encoded_once():
    assert quoted_path("a b/ä+%.bin") == "a%20b/%C3%A4%2B%25.bin"
    assert canonical_query("b=1&a=x%20y&a=%2B") == "a=%2B&a=x%20y&b=1"


@pytest.mark.parametrize(
    ("url", "location", "target", "kept"),
    [
        ("https://a/x", "/y", "https://a/y", True),
        ("https://a/x", "https://a:443/y", "https://a:443/y", True),
        ("https://a/x", "https://A/y", "https://A/y", True),
        ("https://a/x", "https://b/y", "https://b/y", False),
        ("https://a/x", "https://a:8443/y", "https://a:8443/y", False),
        ("http://a/x", "https://a/y", "https://a/y", False),
    ],
)
def test_a_redirect_keeps_credentials_only_for_the_same_origin(url, location, target, kept):
    headers = {"Authorization": "Bearer x", "Range": "bytes=5-"}

    assert follow(url, location, headers) == (
        target,
        headers if kept else {"Range": "bytes=5-"},
    )


@pytest.mark.parametrize("location", ["http://a/y", "ftp://a/y", "file:///etc/passwd"])
def test_a_redirect_never_leaves_https(location):
    with pytest.raises(FetchError):
        follow("https://a/x", location, {})


@given(st.text(max_size=40))
def test_any_location_is_followed_or_refused(location):
    try:
        target, _ = follow("https://a/x", location, {})
    except (BadSource, Unreachable):
        return
    assert target.startswith("https://")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, BadSource), (401, Denied), (403, Denied), (404, NotFound), (410, NotFound),
        (412, Changed), (408, Unreachable), (429, Unreachable), (500, Unreachable),
        (503, Unreachable), (302, BadSource), (451, BadSource),
    ],
)  # fmt: skip
def test_a_status_means_one_failure(status, kind):
    failure = answers.failure_of(status, {}, "s3://b/a", "x\n<b>", now=NOW, told=True)

    assert type(failure) is kind
    assert "s3://b/a" in str(failure)
    assert "\n" not in str(failure)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7), ("", 0), ("x", 0), ("-1", 0), ("99999", 60), ("²", 0),
        ("Fri, 24 May 2013 00:00:09 GMT", 9), ("Fri, 24 May 2012 00:00:09 GMT", 0),
    ],
)  # fmt: skip
def test_retry_after_is_honoured_up_to_a_limit(text, seconds):
    assert answers.retry_after_seconds({"Retry-After": text}, NOW) == seconds


def test_delays_grow_and_honour_retry_after():
    assert [retries.delay_seconds(n, 0, 1) for n in range(1, 8)] == [0.5, 1, 2, 4, 8, 16, 20]
    assert retries.delay_seconds(3, 0, 0.5) == 1.5
    assert retries.delay_seconds(1, 9, 0) == 9


def attempts(progress_at: set[int], until: int | None) -> tuple[int, list[float]]:
    """Number of attempts for an action that makes progress at some of them and succeeds at one."""
    made, waits, reached = 0, [], 0

    def attempt() -> int:
        nonlocal made, reached
        made += 1
        reached += made in progress_at
        if made == until:
            return made
        raise Unreachable("no")

    with contextlib.suppress(Unreachable):
        retries.persistently(attempt, waits.append, lambda: reached)
    return made, waits


def test_retries_without_progress_end_after_seven_attempts():
    made, waits = attempts(set(), None)

    assert (made, len(waits)) == (7, 6)


def test_progress_resets_the_count_of_attempts():
    assert attempts({5}, None)[0] == 5 + 6
    assert attempts({3, 6, 9, 12}, 15)[0] == 15


@pytest.mark.parametrize(
    ("text", "count"),
    [("0", 0), ("7", 7), ("2k", 2000), ("2Ki", 2048), ("20Gi", 20 * 2**30), ("1P", 10**15)],
)
def test_a_quantity_is_read(text, count):
    assert parse_quantity(text) == count


@pytest.mark.parametrize("text", ["", "Gi", "1.5Gi", "-1", "1 Gi", "1K", "1gi", "1e3"])
def test_an_invalid_quantity_is_refused(text):
    with pytest.raises(ValueError, match=f"'{text}'.*20Gi"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"),
        (3 * 2**30, "3.0 GiB"), (5000 * 2**40, "5000.0 TiB"),
    ],
)  # fmt: skip
def test_amounts_are_formatted_for_people(count, text):
    assert in_bytes(count) == text


def test_a_line_of_progress_has_bytes_files_and_speed():
    assert line(2**30, 4 * 2**30, 3, 12, 85 * 2.0**20) == (
        "1.0 GiB of 4.0 GiB (25 %), 3 of 12 files, 85.0 MiB/s"
    )
    assert line(2**30, 0, 0, 1, 0) == "1.0 GiB, 0 of 1 files, 0 B/s"


@pytest.mark.parametrize(
    "path",
    ["", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "a\0b", "x" * 256, "\ud800"],
)
def test_a_path_that_leaves_its_folder_is_refused(path):
    with pytest.raises(BadSource):
        checked([Entry(path, "u", 1)], "s3://b")


@given(st.text(max_size=60))
def test_a_path_is_refused_or_stays_below_its_folder(path):
    try:
        checked([Entry(path, "u", 1)], "s3://b")
    except BadSource:
        return
    assert not path.startswith("/")
    assert not {"", ".", ".."} & set(path.split("/"))


def test_a_file_may_not_be_a_folder_too():
    with pytest.raises(BadSource, match="'a' both as a file and as a folder"):
        checked([Entry("a", "u", 1), Entry("a/b/c", "u", 1)], "s3://b")


def test_a_listing_without_files_is_not_found():
    with pytest.raises(NotFound):
        checked([], "s3://b/a")


def test_another_version_of_an_object_has_another_part_name():
    one, other = Entry("a", "u", 1, identity="1"), Entry("a", "u", 1, identity="2")

    assert one.part_name != other.part_name


@given(st.text(max_size=60))
def test_a_member_is_refused_or_is_below_the_folder(name):
    try:
        path = archive_rules.member_path(name, "a.tar")
    except Corrupt:
        return
    assert not path.startswith("/")
    assert ".." not in path.split("/")


@pytest.mark.parametrize(
    ("path", "gone"),
    [
        ("a/.wh.b", archive_rules.Whiteout("a/b", is_opaque=False)),
        (".wh.b", archive_rules.Whiteout("b", is_opaque=False)),
        (".wh....", archive_rules.Whiteout("...", is_opaque=False)),
        ("a/.wh..wh..opq", archive_rules.Whiteout("a", is_opaque=True)),
        (".wh..wh..opq", archive_rules.Whiteout("", is_opaque=True)),
        ("a/b", None),
        ("a/.whb", None),
    ],
)
def test_whiteouts_of_layers_are_recognized(path, gone):
    assert archive_rules.whiteout(path, "layer") == gone


@pytest.mark.parametrize("path", [".wh.", ".wh..", ".wh...", "a/.wh...", ".wh.a/b", ".wh..../b"])
def test_a_whiteout_that_names_no_file_is_refused(path):
    with pytest.raises(Corrupt, match="layer has a"):
        archive_rules.whiteout(path, "layer")


@given(st.lists(st.sampled_from([".wh.", ".wh..", ".wh...", ".", "..", "a", ".wh.a", ""])))
def test_a_whiteout_is_refused_or_removes_something_below_the_folder(parts):
    try:
        gone = archive_rules.whiteout(archive_rules.member_path("/".join(parts), "a"), "a")
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
    assert archive_rules.is_metadata(path) is expected


@pytest.mark.parametrize(
    ("gone", "keep", "expected"),
    [
        ("a", "", True), ("a", "a", True), ("a/b", "a", True), ("a", "a/b", True),
        ("", "a", True), ("ab", "a", False), ("a", "ab", False),
    ],
)  # fmt: skip
def test_a_whiteout_concerns_the_folder_that_is_kept(gone, keep, expected):
    assert archive_rules.Whiteout(gone, is_opaque=False).concerns(keep) is expected


def test_a_budget_limits_bytes_and_members():
    budget = archive_rules.Budget(10, 1)
    budget.spend(10, "a.tar")
    budget.spend_member("a.tar")

    with pytest.raises(
        NoSpace, match=r"a\.tar contains more than 0 B, the free space on the volume:"
    ):
        budget.spend(1, "a.tar")
    with pytest.raises(Corrupt, match="100000"):
        budget.spend_member("a.tar")
