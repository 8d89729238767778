"""A model's own HTTP format cannot break the framing of HTTP."""

import pytest

from moorage_runtime.frontends.grps.custom_http import CustomHttpFrontend
from moorage_runtime.frontends.http.message import HttpRequest
from moorage_runtime.values.inference import HttpReply


class Dataplane:
    def __init__(self, reply):
        self._reply = reply
        self.is_closed = False

    async def http(self, _name, _version, call):
        self.path = call.path
        try:
            yield self._reply
        finally:
            self.is_closed = True


REQUEST = HttpRequest("GET", "/own", "", {}, b"")


@pytest.mark.parametrize("content_type", ["a/b\r\nX: y", "a/b\n", "a/b\0", "", "a/b\x85X"])
async def test_a_content_type_with_control_characters_is_a_model_error(content_type):
    dataplane = Dataplane(HttpReply(b"body", 200, content_type))
    answer = await CustomHttpFrontend(dataplane).answer("m", "1", REQUEST)

    assert answer.status == 500
    assert b"content type" in answer.body
    assert dataplane.is_closed


async def test_a_valid_content_type_is_unchanged():
    dataplane = Dataplane(HttpReply(b"body", 200, "text/html; charset=utf-8"))
    answer = await CustomHttpFrontend(dataplane).answer("m", "1", REQUEST)

    assert (answer.status, answer.content_type) == (200, b"text/html; charset=utf-8")


@pytest.mark.parametrize("path", ["/%EC%95%88/a%2Fb", "/\xec\x95\x88/a%2fb"])
async def test_a_model_receives_the_path_decoded(path):
    dataplane = Dataplane(HttpReply(b"body", 200))
    await CustomHttpFrontend(dataplane).answer("m", "1", HttpRequest("GET", path, "", {}, b""))

    assert dataplane.path == "/\uc548/a/b"
