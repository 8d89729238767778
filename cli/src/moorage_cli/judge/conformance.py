"""`moorage conformance`: which parts of which protocols a server supports; pure.

Each request is read-only and has a check for its response. One control request has a path that no
server supports: if a server answers it with 200 too, only the bodies of its responses count.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import quote

from moorage_cli.printing.report import Report
from moorage_cli.printing.sanitizing import clean
from moorage_cli.printing.tables import Cell, Palette, Tone, render, shorten

__all__ = ["CONTROL", "Finding", "GrpcQuestion", "HttpQuestion", "HttpReply", "Verdict"]
__all__ += ["grpc_finding", "grpc_questions", "http_finding", "http_questions", "report"]

CONTROL = "/moorage-conformance/no-server-has-this"
OPEN_INFERENCE, TENSORFLOW = "OpenInference", "TensorFlowServing"
GRPS, OPENAI = "GRPS", "OpenAI"
BESIDE = "other"
EVIDENCE_LIMIT = 300
EVIDENCE_WIDTH = 90


class Verdict(StrEnum):
    """Whether a part is supported."""

    YES = "yes"
    NO = "no"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A response; code 0 means no response, and the body gives the reason."""

    code: int
    body: str

    @property
    def document(self) -> Mapping[str, Any]:
        """The body as a JSON object, {} if it is not one."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True)
class HttpQuestion:
    """A GET and the check of its body; without a check, only the status counts."""

    protocol: str
    part: str
    path: str
    shows: Callable[[Mapping[str, Any], str], bool] | None = None


@dataclass(frozen=True, slots=True)
class GrpcQuestion:
    """A call with an empty message; `first` lists the valid first bytes of a response."""

    protocol: str
    part: str
    method: str
    first: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result for one part."""

    protocol: str
    part: str
    verdict: Verdict
    evidence: str


def http_questions(model: str) -> list[HttpQuestion]:
    """The HTTP requests; those for a model only if its name is given.

    Sources: Open Inference Protocol V2, "HTTP/REST"; TensorFlow Serving RESTful API, "Model
    status" and "Model Metadata"; GRPS interface, "HTTP"; OpenAI API reference, "Models".
    """
    name = quote(model, safe="")
    found = [
        HttpQuestion(OPEN_INFERENCE, "REST live", "/v2/health/live"),
        HttpQuestion(OPEN_INFERENCE, "REST ready", "/v2/health/ready"),
        HttpQuestion(OPEN_INFERENCE, "REST server metadata", "/v2", _is_server_metadata),
        HttpQuestion(GRPS, "HTTP live", "/grps/v1/health/live", _has_grps_status),
        HttpQuestion(GRPS, "HTTP ready", "/grps/v1/health/ready", _has_grps_status),
        HttpQuestion(GRPS, "HTTP metadata", "/grps/v1/metadata/server", _has_grps_status),
        HttpQuestion(OPENAI, "HTTP model list", "/v1/models", _has_model_list),
        HttpQuestion(BESIDE, "Prometheus metrics", "/metrics", _is_exposition),
    ]
    if not model:
        return found
    return [
        *found,
        HttpQuestion(OPEN_INFERENCE, "REST model ready", f"/v2/models/{name}/ready"),
        HttpQuestion(OPEN_INFERENCE, "REST model metadata", f"/v2/models/{name}", _is_metadata),
        HttpQuestion(TENSORFLOW, "REST model status", f"/v1/models/{name}", _has_versions),
        HttpQuestion(
            TENSORFLOW, "REST model metadata", f"/v1/models/{name}/metadata", _has_signatures
        ),
    ]


def grpc_questions() -> list[GrpcQuestion]:
    """The gRPC calls; their responses are checked by protobuf's wire format alone.

    A boolean or enumeration in field 1 starts with 0x08 and is absent if it is zero. A string or
    message in field 1 starts with 0x0a (Protocol Buffers, "Encoding").
    """
    inference, service = "inference.GRPCInferenceService", "grps.protos.v1.GrpsService"
    return [
        GrpcQuestion(OPEN_INFERENCE, "gRPC live", f"/{inference}/ServerLive", (b"\x08",)),
        GrpcQuestion(OPEN_INFERENCE, "gRPC ready", f"/{inference}/ServerReady", (b"\x08", b"")),
        GrpcQuestion(
            OPEN_INFERENCE, "gRPC server metadata", f"/{inference}/ServerMetadata", (b"\x0a",)
        ),
        GrpcQuestion(GRPS, "gRPC live", f"/{service}/CheckLiveness", (b"\x0a",)),
        GrpcQuestion(GRPS, "gRPC ready", f"/{service}/CheckReadiness", (b"\x0a",)),
        GrpcQuestion(GRPS, "gRPC metadata", f"/{service}/ServerMetadata", (b"\x0a",)),
        GrpcQuestion(BESIDE, "gRPC health", "/grpc.health.v1.Health/Check", (b"\x08",)),
    ]


def http_finding(question: HttpQuestion, reply: HttpReply, control: HttpReply) -> Finding:
    """Evaluate one response, given the response to the control request."""
    evidence = f"HTTP {reply.code} from {question.path}"
    if not reply.code:
        return Finding(question.protocol, question.part, Verdict.UNCLEAR, reply.body)
    if question.shows is not None:
        shown = question.shows(reply.document, reply.body)
        verdict = Verdict.YES if shown else Verdict.NO
        evidence += (
            f": {shorten(reply.body, EVIDENCE_LIMIT)}"
            if shown or reply.code == HTTPStatus.OK
            else ""
        )
        return Finding(question.protocol, question.part, verdict, evidence)
    if control.code == HTTPStatus.OK and reply.code == HTTPStatus.OK:
        doubt = f"{evidence}, the same as from a path that does not exist"
        return Finding(question.protocol, question.part, Verdict.UNCLEAR, doubt)
    verdict = Verdict.YES if reply.code == HTTPStatus.OK else Verdict.NO
    if reply.code == HTTPStatus.SERVICE_UNAVAILABLE:
        verdict, evidence = Verdict.UNCLEAR, f"{evidence}: not ready, or a proxy without a backend"
    return Finding(question.protocol, question.part, verdict, evidence)


def grpc_finding(question: GrpcQuestion, code: str, answer: bytes) -> Finding:
    """Evaluate one call by the name of its status code, and by its bytes if that is OK."""
    evidence = f"{code} from {question.method}"
    if code != "OK":
        silent = code in {"UNAVAILABLE", "DEADLINE_EXCEEDED"}
        verdict = Verdict.UNCLEAR if silent else Verdict.NO
        return Finding(question.protocol, question.part, verdict, evidence)
    fits = any(answer[:1] == first for first in question.first)
    return Finding(
        question.protocol,
        question.part,
        Verdict.YES if fits else Verdict.UNCLEAR,
        f"{evidence}, {len(answer)} bytes",
    )


def report(findings: Sequence[Finding], wanted: str, palette: Palette) -> Report:
    """All findings; ok if `wanted`, or any protocol if it is empty, is fully supported.

    A server may support one transport only, so a transport without any supported part is ignored.
    """
    order = (OPEN_INFERENCE, TENSORFLOW, GRPS, OPENAI, BESIDE)
    findings = sorted(findings, key=lambda item: order.index(item.protocol))
    spoken = [name for name in order if name != BESIDE and _is_spoken(name, findings)]
    tones = {Verdict.YES: Tone.GOOD, Verdict.NO: Tone.PLAIN, Verdict.UNCLEAR: Tone.UNSURE}
    rows = [
        [
            Cell(item.protocol),
            Cell(item.part),
            Cell(item.verdict, tones[item.verdict]),
            Cell(shorten(item.evidence, EVIDENCE_WIDTH)),
        ]
        for item in findings
    ]
    text = render(("PROTOCOL", "PART", "SUPPORTED", "EVIDENCE"), rows, palette)
    supported = ", ".join(spoken) or "no protocol fully"
    document = {"spoken": spoken, "findings": [asdict(item) for item in findings]}
    ok = wanted in spoken if wanted else bool(spoken)
    return Report(f"{text}\nSupports {clean(supported)}.\n", document, ok)


def _is_spoken(protocol: str, findings: Sequence[Finding]) -> bool:
    """Whether one transport has at least one supported part and no unsupported part."""
    transports: dict[str, list[Verdict]] = {}
    for item in findings:
        if item.protocol == protocol:
            transport = "gRPC" if item.part.startswith("gRPC") else "HTTP"
            transports.setdefault(transport, []).append(item.verdict)
    return any(
        Verdict.YES in verdicts and Verdict.NO not in verdicts for verdicts in transports.values()
    )


def _is_server_metadata(document: Mapping[str, Any], body: str) -> bool:
    del body
    return isinstance(document.get("name"), str) and "extensions" in document


def _is_metadata(document: Mapping[str, Any], body: str) -> bool:
    del body
    return isinstance(document.get("name"), str) and isinstance(document.get("inputs"), list)


def _has_versions(document: Mapping[str, Any], body: str) -> bool:
    del body
    return isinstance(document.get("model_version_status"), list)


def _has_signatures(document: Mapping[str, Any], body: str) -> bool:
    del body
    return isinstance(document.get("metadata"), dict)


def _has_grps_status(document: Mapping[str, Any], body: str) -> bool:
    del body
    status = document.get("status")
    return isinstance(status, dict) and "status" in status


def _has_model_list(document: Mapping[str, Any], body: str) -> bool:
    del body
    return document.get("object") == "list" and isinstance(document.get("data"), list)


def _is_exposition(document: Mapping[str, Any], body: str) -> bool:
    """Source: Prometheus, "Exposition formats"."""
    del document
    return any(line.startswith("# TYPE ") for line in body.splitlines())
