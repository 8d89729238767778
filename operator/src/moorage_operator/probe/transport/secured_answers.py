"""Answers of servers where TLS or tokens do not fit the spec; pure.

Both transports build the same answers, so that a message does not depend on the protocol.
"""

from moorage_operator.api import names
from moorage_operator.values.answers import Answer, AnswerReason
from moorage_operator.values.plan import ProbeTarget

__all__ = ["answers_plainly", "breaks_off", "needs_tls", "unauthorized", "where_is"]


def where_is(target: ProbeTarget) -> str:
    """Return the address and port of a server: 10.0.0.7:8000 or [fd00::7]:8000."""
    host = f"[{target.address}]" if ":" in target.address else target.address
    return f"{host}:{target.way.port}"


def needs_tls(target: ProbeTarget) -> Answer:
    """Build the answer of a server that speaks TLS although the spec does not say so."""
    message = (
        f"the server at {where_is(target)} speaks TLS, but spec.tls is not set: set "
        "spec.tls.secretName to the Secret with its certificate"
    )
    return Answer(None, AnswerReason.TLS_MISMATCH, message)


def answers_plainly(target: ProbeTarget) -> Answer:
    """Build the answer of a server without TLS although the spec sets it."""
    message = (
        f"spec.tls is set, but the server at {where_is(target)} answers in plaintext: let it "
        f"serve the certificate in {names.TLS_MOUNT_PATH}, or remove spec.tls"
    )
    return Answer(None, AnswerReason.TLS_MISMATCH, message)


def breaks_off(target: ProbeTarget, details: str) -> Answer:
    """Build the answer of a server that sends something else than TLS."""
    message = f"the server at {where_is(target)} does not complete the TLS handshake: {details}"
    return Answer(None, AnswerReason.TLS_MISMATCH, message)


def unauthorized(what: str, why: str) -> Answer:
    """Build the answer of a server that requires another token."""
    return Answer(verdict=False, reason=AnswerReason.UNAUTHORIZED, message=f"{what}: {why}")
