"""What is read of the API server's lists."""

import pytest

from moorage_operator.kube import errors
from moorage_operator.kube.bodies import read_page


def test_a_page_has_its_objects_its_version_and_where_it_goes_on() -> None:
    page = read_page(
        b'{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"more"},'
        b'"items":[{"metadata":{"uid":"a"}},{"metadata":{"uid":"b"}}]}'
    )

    assert (page.resource_version, page.continue_) == ("7", "more")
    assert [body["metadata"]["uid"] for body in page.items] == ["a", "b"]
    assert [body["metadata"]["uid"] for body in page.items] == ["a", "b"]


@pytest.mark.parametrize("items", [b'"items":null,', b'"items":[],', b""])
def test_a_list_of_nothing_has_no_objects(items: bytes) -> None:
    page = read_page(b"{" + items + b'"metadata":{"resourceVersion":"7"}}')

    assert (list(page.items), page.continue_) == ([], "")


@pytest.mark.parametrize("body", [b"[]", b"<html>", b'{"items":{}}', b'{"items":[1', b""])
def test_what_is_no_list_is_the_servers_error(body: bytes) -> None:
    with pytest.raises(errors.ServerError):
        read_page(body)


def test_an_object_of_a_page_that_is_none_is_the_servers_error() -> None:
    page = read_page(b'{"metadata":{},"items":[{"metadata":{}},7]}')

    with pytest.raises(errors.ServerError):
        list(page.items)
