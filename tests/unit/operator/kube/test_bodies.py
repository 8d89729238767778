"""Parsing of the API server's lists."""

import pytest

from moorage_operator.kube import errors
from moorage_operator.kube.bodies import read_page


def test_a_page_has_objects_a_version_and_a_continue_token() -> None:
    page = read_page(
        b'{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"more"},'
        b'"items":[{"metadata":{"uid":"a"}},{"metadata":{"uid":"b"}}]}'
    )

    assert (page.resource_version, page.continue_) == ("7", "more")
    assert [body["metadata"]["uid"] for body in page.items] == ["a", "b"]
    assert [body["metadata"]["uid"] for body in page.items] == ["a", "b"]


@pytest.mark.parametrize("items", [b'"items":null,', b'"items":[],', b""])
def test_an_empty_list_has_no_objects(items: bytes) -> None:
    page = read_page(b"{" + items + b'"metadata":{"resourceVersion":"7"}}')

    assert (list(page.items), page.continue_) == ([], "")


@pytest.mark.parametrize("body", [b"[]", b"<html>", b'{"items":{}}', b'{"items":[1', b""])
def test_a_body_that_is_not_a_list_is_a_server_error(body: bytes) -> None:
    with pytest.raises(errors.ServerError):
        read_page(body)


def test_an_item_that_is_not_an_object_is_a_server_error() -> None:
    page = read_page(b'{"metadata":{},"items":[{"metadata":{}},7]}')

    with pytest.raises(errors.ServerError):
        list(page.items)
