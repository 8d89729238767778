"""The Open Inference Protocol over HTTP, as a driver.

What body means ready: HTTP 200 and (no body, or not JSON, or a JSON object in which neither
`ready` nor `live` is false). Triton and MLServer send an empty body, KServe `{"ready": true}`.
Anything else answers no, and its words are passed on. By pod address, without proxies, redirects
or a body above 1 MiB.
"""

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast

import httpx
import msgspec

from moorage_operator.state import Answer, AnswerReason, ProbeTarget

from . import metadata
from .driver import ANSWER_LIMIT_BYTES, Described, quoted

CONNECT_TIMEOUT_SECONDS = 1.0
"""Pods are one hop away; a SYN that waits longer than this meets no listener."""

CONNECTIONS = 256
"""Open connections of all targets; above it the pool closes idle ones first."""

# The registry's states in a model-ready body; the bundled runtime and Triton's index use them.
_STATES = {"LOADING": AnswerReason.LOADING, "FAILED": AnswerReason.LOAD_FAILED}


@dataclass(frozen=True, slots=True)
class _Reply:
    code: int
    body: bytes


class OipRest:
    """Asks OpenInference servers over HTTP."""

    def __init__(self) -> None:
        self._client = httpx.AsyncClient(
            trust_env=False,
            follow_redirects=False,
            timeout=None,  # noqa: S113 -- each question runs under the target's own deadline
            limits=httpx.Limits(
                max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS
            ),
            # Compressed answers are refused below: a few KiB may expand to gigabytes.
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
        )

    async def live(self, target: ProbeTarget) -> Answer:
        """Whether the live endpoint says yes."""
        return await self._yes_or_no(target, target.live_path)

    async def ready(self, target: ProbeTarget) -> Answer:
        """Whether the server's ready endpoint says yes."""
        return await self._yes_or_no(target, target.ready_path)

    async def model_ready(self, target: ProbeTarget) -> Answer:
        """Whether the model's ready endpoint says yes; a 404 is looked into."""
        reply = await self._get(target, target.model_ready_path)
        if isinstance(reply, Answer) or reply.code != HTTPStatus.NOT_FOUND:
            return reply if isinstance(reply, Answer) else _judged(reply, target.model_ready_path)
        server = await self._get(target, target.server_path)
        if isinstance(server, _Reply) and metadata.server_from_json(server.body) is None:
            return Answer(
                None,
                AnswerReason.WRONG_PROTOCOL,
                f"an HTTP server answers 404 to {target.model_ready_path} and has no "
                f"Open Inference metadata at {target.server_path}",
            )
        return await self._not_found(target, reply)

    async def describe(self, target: ProbeTarget) -> Described:
        """Server and model metadata; a part that cannot be read is None."""
        server, model = await asyncio.gather(
            self._get(target, target.server_path), self._get(target, target.metadata_path)
        )
        return Described(
            metadata.server_from_json(_body_of_ok(server)),
            metadata.model_from_json(_body_of_ok(model)),
        )

    async def close(self) -> None:
        """Close idle connections."""
        await self._client.aclose()

    async def _yes_or_no(self, target: ProbeTarget, path: str) -> Answer:
        reply = await self._get(target, path)
        return reply if isinstance(reply, Answer) else _judged(reply, path)

    async def _not_found(self, target: ProbeTarget, reply: _Reply) -> Answer:
        said = quoted(metadata.error_text(reply.body))
        if target.model_version:
            path = target.metadata_path.removesuffix(f"/versions/{target.model_version}")
            other = await self._get(target, path)
            found = metadata.model_from_json(_body_of_ok(other))
            if found is not None:
                has = ", ".join(found.versions) or "none that it names"
                return Answer(
                    verdict=False,
                    reason=AnswerReason.VERSION_NOT_FOUND,
                    message=f"the server has versions {has} of model {target.model_name!r}",
                )
        words = said or f"HTTP 404 from {target.model_ready_path}"
        return Answer(verdict=False, reason=AnswerReason.MODEL_NOT_FOUND, message=words)

    async def _get(self, target: ProbeTarget, path: str) -> _Reply | Answer:
        url = f"http://{_host(target.address)}:{target.port}{path}"
        try:
            async with asyncio.timeout(target.timeout_seconds):
                return await self._read(url, target)
        except (TimeoutError, httpx.TimeoutException):
            return Answer(
                None,
                AnswerReason.TIMED_OUT,
                f"no answer from {target.address}:{target.port}{path} within "
                f"{target.timeout_seconds:g} s",
            )
        except httpx.ProtocolError as error:
            return _protocol_error(target, error)
        except httpx.InvalidURL as error:
            return Answer(None, AnswerReason.MALFORMED, f"{url!r} is no URL: {error}")
        except httpx.HTTPError as error:
            said = quoted(str(error)) or type(error).__name__
            where = f"{target.address}:{target.port}"
            return Answer(None, AnswerReason.REFUSED, f"cannot connect to {where}: {said}")

    async def _read(self, url: str, target: ProbeTarget) -> _Reply | Answer:
        connect = min(CONNECT_TIMEOUT_SECONDS, target.timeout_seconds)
        timeout = httpx.Timeout(target.timeout_seconds, connect=connect)
        async with self._client.stream("GET", url, timeout=timeout) as answer:
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                return _malformed(url, "has a Content-Encoding that was not asked for")
            body = bytearray()
            async for chunk in answer.aiter_raw():
                body += chunk
                if len(body) > ANSWER_LIMIT_BYTES:
                    return _malformed(url, f"is larger than {ANSWER_LIMIT_BYTES} bytes")
            return _Reply(answer.status_code, bytes(body))


def _body_of_ok(reply: _Reply | Answer) -> bytes:
    return reply.body if isinstance(reply, _Reply) and reply.code == HTTPStatus.OK else b""


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _malformed(url: str, why: str) -> Answer:
    return Answer(None, AnswerReason.MALFORMED, f"the answer of {url} {why}")


def _protocol_error(target: ProbeTarget, error: httpx.ProtocolError) -> Answer:
    # httpx has one class for "closed without an answer" (a server that starts or stops) and for
    # bytes that are not HTTP; its text is the only thing that tells them apart.
    if str(error).startswith("Server disconnected"):
        where = f"{target.address}:{target.port}"
        return Answer(None, AnswerReason.REFUSED, f"{where} closed the connection unanswered")
    return Answer(
        None,
        AnswerReason.WRONG_PROTOCOL,
        f"what listens on port {target.port} does not speak HTTP: {quoted(str(error))}",
    )


def _judged(reply: _Reply, path: str) -> Answer:
    """The answer of a health endpoint, from its status and body."""
    document = _mapping(reply.body)
    said = document.get("error")
    words = quoted(said) if isinstance(said, str) and said else ""
    if HTTPStatus.MULTIPLE_CHOICES <= reply.code < HTTPStatus.BAD_REQUEST:
        told = f"HTTP {reply.code} from {path}: redirects are not followed"
        return Answer(None, AnswerReason.WRONG_PROTOCOL, told)
    says_no = document.get("ready") is False or document.get("live") is False
    if reply.code == HTTPStatus.OK and not says_no:
        return Answer(verdict=True, reason=AnswerReason.READY)
    stated = document.get("state")
    reason = _STATES.get(str(stated), AnswerReason.NOT_READY)
    if stated is None and document.get("ready") is False and words:
        # A server that knows the model, says that it is not ready and says why, has failed to
        # load it: one that still loads has no error to tell.
        reason = AnswerReason.LOAD_FAILED
    return Answer(verdict=False, reason=reason, message=words or f"HTTP {reply.code} from {path}")


def _mapping(body: bytes) -> dict[str, Any]:
    try:
        document: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return cast("dict[str, Any]", document) if isinstance(document, dict) else {}
