"""Parsing of the API server's lists and watches."""

import json

import pytest

from moorage_operator.kube import bodies, errors
from moorage_operator.kube.bodies import Change, lines, read_change, read_object, read_page


def test_a_page_has_objects_a_version_and_a_continue_token() -> None:
    page = read_page(
        b'{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"more"},'
        b'"items":[{"metadata":{"uid":"a"}},{"metadata":{"uid":"b"}}]}'
    )

    assert (page.resource_version, page.continue_) == ("7", "more")
    assert [body["metadata"]["uid"] for body in page.items] == ["a", "b"]
    assert [body["metadata"]["uid"] for body in page.items] == ["a", "b"]


def test_a_list_with_empty_metadata_has_no_version_and_no_next_page() -> None:
    page = read_page(b'{"metadata":{}}')

    assert (page.resource_version, page.continue_) == ("", "")


@pytest.mark.parametrize("items", [b'"items":null,', b'"items":[],', b""])
def test_an_empty_list_has_no_objects(items: bytes) -> None:
    page = read_page(b"{" + items + b'"metadata":{"resourceVersion":"7"}}')

    assert (list(page.items), page.continue_) == ([], "")


@pytest.mark.parametrize("body", [b"[]", b"{}", b"<html>", b'{"items":{}}', b'{"items":[1', b""])
def test_a_body_that_is_not_a_list_is_a_server_error(body: bytes) -> None:
    with pytest.raises(errors.ServerError, match=r"not a JSON object: .+"):
        read_page(body)


@pytest.mark.parametrize(
    "body", [b"{}", b'{"metadata":null}', b'{"metadata":{}}', b'{"kind":"Status"}', b"<html>"]
)
def test_a_body_that_is_not_a_stored_object_is_a_server_error(body: bytes) -> None:
    with pytest.raises(errors.ServerError, match="the API server's answer is not a"):
        read_object(body)


def test_an_item_that_is_not_an_object_is_a_server_error() -> None:
    page = read_page(b'{"metadata":{},"items":[{"metadata":{}},7]}')

    with pytest.raises(errors.ServerError):
        list(page.items)


async def split(*chunks: bytes) -> list[bytes]:
    async def sent():
        for chunk in chunks:
            yield chunk

    return [line async for line in lines(sent())]


async def test_events_are_the_lines_of_a_watch_however_it_is_cut() -> None:
    data = b'{"a": 1}\n{"b": 2}\n'

    for cut in range(len(data) + 1):
        assert await split(data[:cut], data[cut:]) == [b'{"a": 1}', b'{"b": 2}']
    assert await split(*(bytes([each]) for each in data)) == [b'{"a": 1}', b'{"b": 2}']


async def test_blank_lines_and_a_line_without_an_end_are_no_events() -> None:
    assert await split(b"\n", b" \r\n{}\n\n{", b"}") == [b"{}"]


async def test_an_event_has_at_most_16_mib(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bodies.LINE_LIMIT_BYTES == 16 << 20
    monkeypatch.setattr(bodies, "LINE_LIMIT_BYTES", 4)

    assert await split(b"1234", b"\n1234", b"\n") == [b"1234", b"1234"]
    with pytest.raises(errors.ServerError, match="larger than 4 bytes"):
        await split(b"123", b"45", b"\n")


@pytest.mark.parametrize("type_", ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"])
def test_an_event_has_a_type_and_an_object(type_: str) -> None:
    line = b'{"type":"%s","object":{"kind":"Pod"}}' % type_.encode()

    assert read_change(line) == Change(type_, {"kind": "Pod"})


def test_an_event_without_an_object_has_an_empty_one() -> None:
    assert read_change(b'{"type":"ADDED","object":[]}') == Change("ADDED", {})


def test_a_line_that_is_not_an_event_is_a_server_error() -> None:
    with pytest.raises(errors.ServerError, match="not a JSON object"):
        read_change(b"[]")


def test_an_error_event_is_raised_with_its_status() -> None:
    with pytest.raises(errors.Gone, match="too old resource version") as raised:
        read_change(
            b'{"type":"ERROR","object":{"code":410,"reason":"Expired",'
            b'"message":"too old resource version"}}'
        )

    assert (raised.value.code, raised.value.reason) == (410, "Expired")


@pytest.mark.parametrize("body", [b'{"code":"410"}', b"{}", b"null"])
def test_an_error_event_without_a_code_is_an_error_of_the_server(body: bytes) -> None:
    with pytest.raises(errors.ServerError) as raised:
        read_change(b'{"type":"ERROR","object":' + body + b"}")

    assert raised.value.code == 500


def test_a_stored_object_has_a_version() -> None:
    stored = {"metadata": {"name": "iris", "resourceVersion": "7"}}

    assert read_object(json.dumps(stored).encode()) == stored


def test_an_object_with_an_empty_version_is_not_stored() -> None:
    with pytest.raises(errors.ServerError) as raised:
        read_object(b'{"metadata":{"resourceVersion":""}}')

    assert raised.value.message == "the API server's answer is not a stored object"
