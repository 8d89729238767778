"""Sends the requests of `inference` and `conformance`; makes no decisions.

Responses are untrusted: their size is limited, and redirects are not followed.
"""

import json
import time
from typing import Any

import grpc
import httpx

from moorage_cli.ask.access import PLAINTEXT, Access, why_no_tls
from moorage_cli.ask.inference.call import Call, CallAnswer
from moorage_cli.ask.inference.request import Request
from moorage_cli.judge.conformance import GrpcQuestion, HttpReply
from moorage_cli.printing.failures import Failure, reason_of

__all__ = ["ANSWER_LIMIT", "call", "channel_options", "fetch", "host_name", "infer", "post"]

ANSWER_LIMIT = 64 * 1024 * 1024
PROBE_LIMIT = 1024 * 1024


def post(
    address: str, request: Request, seconds: float, access: Access = PLAINTEXT
) -> tuple[int, bytes]:
    """Status and body of the response to an inference request.

    Raises:
        Failure: There is no response, or it is too large.
    """
    url, deadline = f"{access.scheme}://{address}{request.path}", time.monotonic() + seconds
    body = json.dumps(dict(request.body)).encode()  # httpx would refuse NaN
    kind = {"Content-Type": "application/json"}
    try:
        with (
            _client(access, seconds) as http,
            http.stream(
                "POST", url, content=body, headers=kind, extensions=host_name(access)
            ) as answer,
        ):
            return answer.status_code, _read(answer, ANSWER_LIMIT, deadline)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = _reason(error, access)
        raise Failure(f"no response to POST {request.path} from {address}: {reason}") from error


def fetch(base: str, path: str, seconds: float, access: Access = PLAINTEXT) -> HttpReply:
    """The response to a GET; without one, code 0 and a sentence that says why."""
    deadline = time.monotonic() + seconds
    try:
        with (
            _client(access, seconds) as http,
            http.stream("GET", f"{base}{path}", extensions=host_name(access)) as answer,
        ):
            body = _read(answer, PROBE_LIMIT, deadline).decode("utf-8", "replace")
            return HttpReply(answer.status_code, body)
    except (httpx.HTTPError, httpx.InvalidURL, Failure) as error:
        return HttpReply(0, f"no response from {path}: {_reason(error, access)}")


def call(channel: grpc.Channel, question: GrpcQuestion, seconds: float) -> tuple[str, bytes]:
    """The name of the status code, and the bytes of the response if it is OK."""
    method: Any = channel.unary_unary(question.method, None, None)  # bytes, not messages
    try:
        return "OK", bytes(method(b"", timeout=seconds))
    except grpc.RpcError as error:
        return error.code().name if isinstance(error, grpc.Call) else "UNKNOWN", b""


def infer(address: str, asked: Call, seconds: float, access: Access = PLAINTEXT) -> CallAnswer:
    """The response to an inference call.

    Raises:
        Failure: The certificate is not accepted, or the server does not speak TLS.
    """
    with _channel(address, access) as channel:
        method: Any = channel.unary_unary(asked.method, None, None)
        try:
            answer = method(asked.body, timeout=seconds, metadata=tuple(access.headers.items()))
            return CallAnswer("OK", "", bytes(answer))
        except grpc.RpcError as error:
            known = error if isinstance(error, grpc.Call) else None
            if known is None:
                return CallAnswer("UNKNOWN", str(error), b"")
            if access.trust and known.code() is grpc.StatusCode.UNAVAILABLE:
                # gRPC does not say why a certificate is refused
                access.trust.handshake(address, seconds)
            return CallAnswer(known.code().name, known.details() or "", b"")


def channel_options(
    access: Access,
) -> tuple[list[tuple[str, Any]], grpc.ChannelCredentials | None]:
    """The options and credentials of a channel; no credentials for plaintext."""
    options: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", ANSWER_LIMIT),
        ("grpc.enable_http_proxy", 0),
    ]
    if access.trust is None:
        return options, None
    if access.trust.server_name:
        options.append(("grpc.ssl_target_name_override", access.trust.server_name))
    return options, grpc.ssl_channel_credentials(access.trust.roots())


def host_name(access: Access) -> dict[str, str]:
    """The extension of a request with the certificate's host name, if the address has another."""
    name = access.trust.server_name if access.trust else ""
    return {"sni_hostname": name} if name else {}


def _channel(address: str, access: Access) -> grpc.Channel:
    """A channel to a server, with its limits."""
    options, credentials = channel_options(access)
    if credentials is None:
        return grpc.insecure_channel(address, options)
    return grpc.secure_channel(address, credentials, options)


def _client(access: Access, seconds: float) -> httpx.Client:
    verified = access.trust.context() if access.trust else True
    return httpx.Client(
        timeout=seconds, trust_env=False, verify=verified, headers=dict(access.headers)
    )


def _reason(error: BaseException, access: Access) -> str:
    if isinstance(error, Failure):
        return str(error)  # a sentence already, such as that about damaged authorities
    return (access.trust and why_no_tls(error, access.trust)) or reason_of(error)


def _read(answer: httpx.Response, limit: int, deadline: float) -> bytes:
    """The body, whose parts may each arrive in time, and the whole not.

    Raises:
        Failure: It is too large or too slow.
    """
    body = bytearray()
    for chunk in answer.iter_bytes():
        body += chunk
        if len(body) > limit:
            raise Failure(f"the response is larger than {limit >> 20} MiB")
        if time.monotonic() > deadline:
            raise Failure("the response does not end in time: set a longer --timeout")
    return bytes(body)
