"""Sends the requests of `inference` and `conformance`; makes no decisions.

Responses are untrusted: their size is limited, and redirects are not followed.
"""

from typing import Any

import grpc
import httpx

from moorage_cli.ask.inference.call import Call, CallAnswer
from moorage_cli.ask.inference.request import Request
from moorage_cli.judge.conformance import GrpcQuestion, HttpReply
from moorage_cli.printing.failures import Failure, reason_of

__all__ = ["call", "fetch", "infer", "post"]

ANSWER_LIMIT = 64 * 1024 * 1024
PROBE_LIMIT = 1024 * 1024


def post(address: str, request: Request, seconds: float) -> tuple[int, bytes]:
    """Status and body of the response to an inference request.

    Raises:
        Failure: There is no response, or it is too large.
    """
    url = f"http://{address}{request.path}"
    try:
        with (
            httpx.Client(timeout=seconds, trust_env=False) as http,
            http.stream("POST", url, json=dict(request.body)) as answer,
        ):
            return answer.status_code, _read(answer, ANSWER_LIMIT)
    except ValueError as error:
        raise Failure(f"the request cannot be sent as JSON: {error}") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = reason_of(error)
        raise Failure(f"no response to POST {request.path} from {address}: {reason}") from error


def fetch(base: str, path: str, seconds: float) -> HttpReply:
    """The response to a GET; without one, code 0 and a sentence that says why."""
    try:
        with (
            httpx.Client(timeout=seconds, trust_env=False) as http,
            http.stream("GET", f"{base}{path}") as answer,
        ):
            body = _read(answer, PROBE_LIMIT).decode("utf-8", "replace")
            return HttpReply(answer.status_code, body)
    except (httpx.HTTPError, httpx.InvalidURL, Failure) as error:
        return HttpReply(0, f"no response from {path}: {reason_of(error)}")


def call(channel: grpc.Channel, question: GrpcQuestion, seconds: float) -> tuple[str, bytes]:
    """The name of the status code, and the bytes of the response if it is OK."""
    method: Any = channel.unary_unary(question.method, None, None)  # bytes, not messages
    try:
        return "OK", bytes(method(b"", timeout=seconds))
    except grpc.RpcError as error:
        return error.code().name if isinstance(error, grpc.Call) else "UNKNOWN", b""


def infer(address: str, asked: Call, seconds: float) -> CallAnswer:
    """The response to an inference call, without TLS."""
    options = [("grpc.max_receive_message_length", ANSWER_LIMIT), ("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(address, options) as channel:
        method: Any = channel.unary_unary(asked.method, None, None)
        try:
            return CallAnswer("OK", "", bytes(method(asked.body, timeout=seconds)))
        except grpc.RpcError as error:
            if isinstance(error, grpc.Call):
                return CallAnswer(error.code().name, error.details() or "", b"")
            return CallAnswer("UNKNOWN", str(error), b"")


def _read(answer: httpx.Response, limit: int) -> bytes:
    body = bytearray()
    for chunk in answer.iter_bytes():
        body += chunk
        if len(body) > limit:
            raise Failure(f"the response is larger than {limit} bytes")
    return bytes(body)
