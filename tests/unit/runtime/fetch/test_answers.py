"""The failure for each HTTP status, and the wait that a server asks for."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.fetch.decide.answers import cleaned, failure_of, retry_after_seconds
from moorage_runtime.fetch.decide.failures import BadSource, Changed, Denied, NotFound, Unreachable

NOW = datetime(2013, 5, 24, tzinfo=UTC)
DENIED = (
    "access to s3://b/a is denied with status {} (x <b>); check the credentials in the Secret and "
    "their permissions"
)


@pytest.mark.parametrize(
    ("status", "kind", "sentence"),
    [
        *((status, Denied, DENIED.format(status)) for status in (401, 403, 407)),
        *(
            (status, NotFound, "s3://b/a does not exist (x <b>): check the URI")
            for status in (404, 410)
        ),
        (412, Changed, "s3://b/a changed during the download"),
        *(
            (status, Unreachable, f"s3://b/a: the server answered with status {status} (x <b>)")
            for status in (408, 425, 429, 500, 503)
        ),
        *(
            (status, BadSource, f"s3://b/a: the server answered with status {status} (x <b>)")
            for status in (302, 400, 451, 499)
        ),
    ],
)
def test_a_status_means_one_failure(status, kind, sentence):
    failure = failure_of(status, {}, "s3://b/a", "x\n<b>", now=NOW, told=True)

    assert type(failure) is kind
    assert str(failure) == sentence


@pytest.mark.parametrize("detail", ["", " \n"])
def test_a_failure_without_details_has_no_parentheses(detail):
    failure = failure_of(400, {}, "s3://b/a", detail, now=NOW, told=True)

    assert str(failure) == "s3://b/a: the server answered with status 400"


def test_a_refusal_without_credentials_says_how_to_set_them():
    failure = failure_of(403, {}, "s3://b/a", "", now=NOW, told=False)

    assert str(failure) == (
        "access to s3://b/a is denied with status 403; no credentials were sent: set "
        "model.credentials.secretName to a Secret with credentials for this address"
    )


def test_a_passing_failure_has_the_wait_that_the_server_asks_for():
    headers = {"Retry-After": "Fri, 24 May 2013 00:00:09 GMT"}

    assert failure_of(503, headers, "s3://b/a", "", now=NOW, told=True).wait_seconds == 9
    assert Unreachable("sentence").wait_seconds == 0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7), (" 7 ", 7), ("", 0), ("x", 0), ("-1", 0), ("99999", 60), ("²", 0),
        ("9" * 400, 0), ("Fri, 24 May 2014 00:00:09 GMT", 60), ("Fri, 24 May 2013 00:00:09", 0),
        ("Fri, 24 May 99999999999999999999 00:00:09 GMT", 0),
        ("Fri, 24 May 2013 00:00:09 GMT", 9), ("Fri, 24 May 2012 00:00:09 GMT", 0),
    ],
)  # fmt: skip
def test_retry_after_is_honoured_up_to_a_limit(text, seconds):
    assert retry_after_seconds({"Retry-After": text}, NOW) == seconds


def test_without_retry_after_there_is_no_wait():
    assert retry_after_seconds({}, NOW) == 0


@given(
    st.lists(st.sampled_from(["Fri,", "24", "May", "2013", "00:00:09", "GMT", "+0000", "9" * 30]))
)
def test_any_retry_after_is_read_or_ignored(words):
    assert 0 <= retry_after_seconds({"Retry-After": " ".join(words)}, NOW) <= 60


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\n  b\tc\x1b[31m\r", "a b c [31m"),
        ("é\u2028x", "é x"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 197 + "..."),
    ],
)
def test_a_servers_message_becomes_one_short_line(text, line):
    assert cleaned(text) == line
