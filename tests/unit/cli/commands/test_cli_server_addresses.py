"""Addresses of model servers that are refused, and servers that never end their response."""

import asyncio
from http import HTTPStatus

import pytest

from moorage_cli import __main__ as program
from moorage_cli.ask import load, wire
from moorage_cli.ask.access import PLAINTEXT
from moorage_cli.ask.inference.request import Request
from moorage_cli.printing.failures import Failure
from support.canned_server import answering, http_answer

PATH = "/v2/models/x"
URLS = (
    "http://", "http://[", "http://[::1", f"http://a b{PATH}", f"http://a\n{PATH}", "http://a:b",
    f"http://a:99999{PATH}", f"http://a:0{PATH}", f"http://xn--a{PATH}", f"http://..a{PATH}",
    f"http://{'a' * 300}{PATH}", "ftp://a", f"{PATH}://",
)  # fmt: skip
IGNORED = (f"http://u:secret@a{PATH}", f"http://a{PATH}?q=1", f"http://a{PATH}#f")
HOSTS = ("x", "a b:1", "a:x", "a:0", "a:99999", "[::1", "..a:1", "http://a:1", "a:1/b", ":1")


@pytest.mark.parametrize(
    ("command", "argument", "values"),
    [
        (["bench"], "NAME|URL", URLS),
        (["conformance"], "ADDRESS", [each for each in URLS if "://" in each]),
        (["conformance"], "ADDRESS", ["x:y", ":", "[::1", "a b", "a:99999", "..a"]),
        (["conformance", "localhost", "--grpc"], "--grpc", HOSTS),
    ],
)
def test_an_address_without_a_valid_host_and_port_is_refused(
    command: list[str], argument: str, values: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for value in values:
        code = program.main([*command, value])

        out, err = capsys.readouterr()
        assert (code, out) == (2, ""), value
        assert err.startswith(f"moorage: {argument}: ")
        assert "is invalid: must be " in err


@pytest.mark.parametrize("url", IGNORED)
def test_parts_of_a_url_that_no_request_would_have_are_refused(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(["bench", url]) == 2

    err = capsys.readouterr().err
    assert err == "moorage: NAME|URL: must not have a user, a query or a fragment\n"


# The length that a response announces, of which it sends nothing more.
ENDLESS = b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n"


def test_a_response_that_does_not_end_in_time_is_a_failure() -> None:
    with answering(ENDLESS, then_drips=True) as server:
        address = f"127.0.0.1:{server.port}"
        with pytest.raises(Failure, match="does not end in time: set a longer --timeout"):
            wire.post(address, Request("/p", {}), 0.3)
        assert wire.fetch(f"http://{address}", "/p", 0.3).code == 0


def test_a_request_of_a_measurement_ends_with_its_timeout() -> None:
    async def asked(port: int) -> str:
        sender = load.http_sender(f"127.0.0.1:{port}", Request("/p", {}), b"{}", PLAINTEXT, 0.3, 1)
        async with sender() as send:
            return await send()

    with answering(ENDLESS, then_drips=True) as server:
        assert asyncio.run(asked(server.port)) == "no response within 0.3 s"


@pytest.mark.parametrize("body", [b"[]", b"null", b'"x"', b"1", b"[" * 200_000, b"<html>", b""])
def test_a_measurement_does_not_begin_with_an_answer_of_another_server(
    body: bytes, tmp_path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = tmp_path / "request.json"
    request.write_text(
        '{"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}]}'
    )
    with answering(http_answer(HTTPStatus.OK, body)) as server:
        url = f"http://127.0.0.1:{server.port}{PATH}"
        code = program.main(["bench", url, "--data", str(request), "--duration", "0.1"])
        first = capsys.readouterr()
        without_data = program.main(["bench", url, "--duration", "0.1"])

    assert (code, first.out, without_data) == (1, "", 1)
    assert "the first request failed, so none is measured" in first.err
    assert "the tensors of the model are not known: set --data" in capsys.readouterr().err
