"""TLS to untrusted servers: contexts, handshakes, and what a failed one means.

    credentials --> Secured --> opened (socket) --> handshake --> http_transport, relay

A certificate is always verified, and a failure names its cause. Two queries without a token find
out which side lacks TLS: `speaks_tls` and `speaks_http2`.

Source: RFC 8446, section 5.1 (record types); OpenSSL, x509_vfy.h (verification codes).
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from moorage_operator.values.words import quoted

__all__ = [
    "NotTrusted",
    "Secured",
    "is_tls_record",
    "make_context",
    "not_trusted",
    "opened",
    "report_expiry",
    "secured_streams",
    "speaks_http2",
    "speaks_tls",
]

HANDSHAKE_SECONDS = 10.0
"""The longest handshake where no deadline of a query applies."""

DIAGNOSIS_SECONDS = 1.0
"""The deadline of a query that finds out whether a server speaks TLS."""

# X509_V_ERR_*: not yet valid, expired, self-signed, no issuer, host name.
_NOT_YET, _EXPIRED, _SELF_SIGNED, _SELF_SIGNED_CA, _NAME = 9, 10, 18, 19, 62
_NO_ISSUER = frozenset({2, 20, 21})

# An alert and a handshake, of SSL 3.0 to TLS 1.3.
_RECORDS = (b"\x15\x03", b"\x16\x03")

# The client's preface of HTTP/2 with empty SETTINGS, and the type of the server's first frame.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_SETTINGS_AT, _SETTINGS = 3, 4


class NotTrusted(Exception):
    """The certificate of the server cannot be verified; the text is a sentence about it."""


@dataclass(frozen=True, slots=True)
class Secured:
    """How to connect to a server with TLS.

    Attributes:
        context: Verifies the certificate.
        server_name: The host name that it must have.
        trusts: What the context trusts, for messages.
        saw: Called with the address of a server and when its certificate expires, as Unix time.
    """

    context: ssl.SSLContext
    server_name: str
    trusts: str
    saw: Callable[[str, float], None] = field(default=lambda _, __: None, compare=False)


def make_context(authorities: Sequence[str], protocol: str) -> ssl.SSLContext:
    """Make a context that verifies certificates and host names.

    Args:
        authorities: Trusted certificates in PEM; the system's if there are none.
        protocol: The protocol to offer with ALPN: http/1.1 or h2.

    Raises:
        ssl.SSLError: An authority is not a certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # a server could ask for it without end
    for each in authorities:
        context.load_verify_locations(cadata=each)
    if not authorities:
        context.load_default_certs()
    context.set_alpn_protocols([protocol])
    return context


async def opened(host: str, port: int) -> socket.socket:
    """Open a TCP connection to an IP address.

    Raises:
        OSError: Nothing listens there.
    """
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    made.setblocking(False)  # noqa: FBT003 -- positional only
    try:
        await asyncio.get_running_loop().sock_connect(made, (host, port))
    except BaseException:
        made.close()
        raise
    return made


def not_trusted(error: ssl.SSLCertVerificationError, where: str, secured: Secured) -> NotTrusted:
    """Describe why a certificate was not accepted."""
    certificate = f"the certificate of {where}"
    code = error.verify_code
    if code == _EXPIRED:
        return NotTrusted(f"{certificate} has expired: renew it")
    if code == _NOT_YET:
        return NotTrusted(f"{certificate} is not valid yet: check the clock of its issuer")
    if code == _NAME:
        return NotTrusted(
            f"{certificate} is not for {secured.server_name}: issue it for this name, or set "
            "spec.tls.serverName to a name that it has"
        )
    if code in (_SELF_SIGNED, _SELF_SIGNED_CA):
        what = "is self-signed" if code == _SELF_SIGNED else "has a private CA"
        return NotTrusted(f"{certificate} {what}, which is not among {secured.trusts}")
    if code in _NO_ISSUER:
        return NotTrusted(f"the issuer of {certificate} is not among {secured.trusts}")
    return NotTrusted(f"{certificate} is not accepted: {quoted(error.verify_message)}")


async def secured_streams(
    made: socket.socket, secured: Secured
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Shake hands on an open connection.

    Raises:
        NotTrusted: The certificate was not accepted.
        OSError: The handshake failed; `ssl.SSLError` if the bytes are not TLS.
    """
    host, port = made.getpeername()[:2]
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            reader, writer = await asyncio.open_connection(
                sock=made, ssl=secured.context, server_hostname=secured.server_name
            )
    except ssl.SSLCertVerificationError as error:
        raise not_trusted(error, f"{host}:{port}", secured) from error
    except BaseException:
        made.close()
        raise
    report_expiry(writer.transport, host, secured)
    return reader, writer


def report_expiry(transport: asyncio.BaseTransport, host: str, secured: Secured) -> None:
    """Report when the certificate of a completed handshake expires."""
    certificate = transport.get_extra_info("peercert") or {}
    with suppress(KeyError, ValueError):  # no date that can be read
        secured.saw(host, ssl.cert_time_to_seconds(certificate["notAfter"]))


def is_tls_record(data: bytes) -> bool:
    """Whether the first bytes of an answer are those of TLS."""
    return data[:2] in _RECORDS


async def speaks_tls(host: str, port: int) -> bool:
    """Whether a server completes a handshake, or rejects it as a TLS server does.

    Nothing is sent over the connection, so its certificate does not matter.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2", "http/1.1"])
    try:
        async with asyncio.timeout(DIAGNOSIS_SECONDS):
            _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname="")
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except (OSError, TimeoutError):
        return False
    writer.transport.abort()
    return True


async def speaks_http2(host: str, port: int) -> bool:
    """Whether a server answers the preface of HTTP/2 without TLS."""
    try:
        async with asyncio.timeout(DIAGNOSIS_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(_PREFACE)
                frame = await reader.readexactly(_SETTINGS_AT + 1)
            finally:
                writer.transport.abort()
    except (OSError, TimeoutError, EOFError):
        return False
    return frame[_SETTINGS_AT] == _SETTINGS
