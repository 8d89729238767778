"""Redirects: the allowed targets, and the headers for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.fetch.decide.failures import BadSource, Unreachable
from moorage_runtime.fetch.decide.redirects import follow


@pytest.mark.parametrize(
    ("url", "location", "target", "kept"),
    [
        ("https://a/x", "/y", "https://a/y", True),
        ("https://a/x", "https://a:443/y", "https://a:443/y", True),
        ("https://a/x", "https://A/y", "https://A/y", True),
        ("http://a/x", "http://a:80/y", "http://a:80/y", True),
        ("https://a/x", "https://b/y", "https://b/y", False),
        ("https://a/x", "https://a:8443/y", "https://a:8443/y", False),
        ("http://a/x", "https://a/y", "https://a/y", False),
        ("http://a:8080/x", "http://a/y", "http://a/y", False),
    ],
)
@pytest.mark.parametrize("name", ["Authorization", "cookie", "x-amz-security-token"])
def test_a_redirect_keeps_credentials_only_for_the_same_origin(url, location, target, kept, name):
    headers = {name: "secret", "Range": "bytes=5-"}

    assert follow(url, location, headers) == (
        target,
        headers if kept else {"Range": "bytes=5-"},
    )


@pytest.mark.parametrize(
    ("location", "scheme"), [("http://a/y", "http"), ("ftp://a/y", "ftp"), ("FTP://a/y", "ftp")]
)
def test_a_redirect_never_leaves_https(location, scheme):
    with pytest.raises(BadSource) as caught:
        follow("https://user:secret@a:99/x", location, {})

    assert str(caught.value) == (f"a:99 redirects from https to {scheme}, which is not allowed")


def test_a_redirect_of_http_leads_to_http_or_https_only():
    with pytest.raises(BadSource, match=r"^a redirects from http to ftp, which is not allowed$"):
        follow("http://a/x", "ftp://a/y", {})


@pytest.mark.parametrize("location", ["", "file:///etc/passwd", "http:///y"])
def test_a_redirect_has_a_target(location):
    with pytest.raises(Unreachable) as caught:
        follow("https://a/x", location, {})

    assert str(caught.value) == "a redirects without a target"


@pytest.mark.parametrize("location", ["https://a:x/y", "https://a:99999/y", "https://[a/y"])
def test_a_redirect_to_an_invalid_url_is_refused(location):
    with pytest.raises(Unreachable) as caught:
        follow("https://a/x", location, {})

    assert str(caught.value) == "a redirects to an invalid URL"


@given(st.text(max_size=40))
def test_any_location_is_followed_or_refused(location):
    try:
        target, _ = follow("https://a/x", location, {})
    except (BadSource, Unreachable):
        return
    assert target.startswith("https://")
