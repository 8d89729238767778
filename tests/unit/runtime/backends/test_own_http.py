"""What the http method of a model returns: an error of the model instead of an empty response."""

import http

import pytest

from moorage_runtime.backends.python.own_http import checked
from moorage_runtime.values.errors import ModelFailed
from moorage_runtime.values.inference import HttpReply


@pytest.mark.parametrize("body", [b"text", bytearray(b"text"), memoryview(b"text")])
def test_a_body_of_bytes_is_sent(body):
    assert checked(HttpReply(body, 201, "a/b")) == HttpReply(b"text", 201, "a/b")


@pytest.mark.parametrize("body", [[b"a", b"", b"b"], iter([b"a", b"", bytearray(b"b")])])
def test_a_body_of_parts_is_streamed(body):
    assert list(checked(HttpReply(body)).body) == [b"a", b"", b"b"]


@pytest.mark.parametrize("status", [200, 204, 599, http.HTTPStatus.IM_USED])
def test_a_status_that_ends_a_response_is_sent(status):
    assert type(checked(HttpReply(b"", status)).status) is int
    assert checked(HttpReply(b"", status)).status == status


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (None, "returned NoneType: must return HttpReply"),
        ({}, "returned dict: must return HttpReply"),
        (HttpReply("text"), "a body of type str: must be bytes or an iterator of bytes"),
        (HttpReply({"a": b"b"}), "a body of type dict: must be bytes"),
        (HttpReply(None), "a body of type NoneType: must be bytes"),
        (HttpReply(b"", 99), "the status 99: must be an integer from 200 to 599"),
        (HttpReply(b"", 101), "the status 101: must be an integer"),
        (HttpReply(b"", 1000), "the status 1000: must be an integer"),
        (HttpReply(b"", "200"), "the status '200': must be an integer"),
        (HttpReply(b"", status=True), "the status True: must be an integer"),
    ],
)
def test_anything_else_is_an_error_of_the_model(reply, message):
    with pytest.raises(ModelFailed) as error:
        checked(reply)

    assert message in error.value.message


def test_a_part_that_is_not_bytes_is_an_error():
    parts = checked(HttpReply([b"a", "b"])).body

    assert next(parts) == b"a"
    with pytest.raises(ModelFailed, match="yielded str: must yield bytes"):
        next(parts)


@pytest.mark.parametrize("count", [0, 1])
def test_an_iterator_that_is_left_is_closed(tmp_path, count):
    (tmp_path / "lines").write_bytes(b"a\nb\n")
    file = (tmp_path / "lines").open("rb")
    parts = checked(HttpReply(file)).body
    for _ in range(count):
        next(parts)

    parts.close()

    assert file.closed
