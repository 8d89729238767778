"""How a model server is reached: in plaintext or with TLS, and with which token.

A certificate is always verified, for the host name of the model: a port-forward has another
address. A token is sent only after that.
"""

import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

from moorage_cli.printing.failures import Failure, causes_of, reason_of

__all__ = ["PLAINTEXT", "Access", "Trust", "why_no_tls"]

# OpenSSL's X509_V_ERR codes that have a better sentence than OpenSSL's.
_NOT_YET, _EXPIRED, _NAME, _ADDRESS = 9, 10, 62, 64
_UNKNOWN_ISSUER = frozenset({2, 18, 19, 20, 21})


@dataclass(frozen=True, slots=True)
class Trust:
    """What the certificate of a server is verified with.

    Args:
        server_name: The host name that it must have; empty for that of the address.
        authorities: Trusted certificates in PEM; empty for those of this machine.
        named: What is trusted, for messages.
        fix: What to do if the issuer is not trusted.
    """

    server_name: str = ""
    authorities: str = ""
    named: str = "the CAs of this machine"
    fix: str = "set --ca-file"

    def context(self) -> ssl.SSLContext:
        """A context that verifies certificates and host names.

        Raises:
            Failure: The authorities are not certificates.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if not self.authorities:
            context.load_default_certs()
            return context
        try:
            context.load_verify_locations(cadata=self.authorities)
        except (ssl.SSLError, ValueError) as error:
            raise Failure(f"{self.named} has no valid certificate in PEM") from error
        return context

    def roots(self) -> bytes | None:
        """The trusted certificates in PEM for gRPC, or None for those that it has itself."""
        if self.authorities:
            return self.authorities.encode()
        known = self.context().get_ca_certs(binary_form=True)
        return "".join(map(ssl.DER_cert_to_PEM_cert, known)).encode() or None

    def handshake(self, address: str, seconds: float) -> None:
        """Make a connection only to verify the certificate.

        Raises:
            Failure: It is not accepted, or the server does not speak TLS.
        """
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        context = self.context()
        try:
            with (
                socket.create_connection((host, int(port)), seconds) as made,
                context.wrap_socket(made, server_hostname=self.server_name or host),
            ):
                return
        except OSError as error:
            reason = why_no_tls(error, self) or reason_of(error)
            raise Failure(f"no response from {address}: {reason}") from error


@dataclass(frozen=True, slots=True)
class Access:
    """How a server is reached.

    Args:
        trust: What its certificate is verified with; None for plaintext.
        token: The bearer token; empty for none.
    """

    trust: Trust | None = None
    token: str = field(default="", repr=False)

    @property
    def scheme(self) -> str:
        """The scheme of its HTTP addresses."""
        return "https" if self.trust else "http"

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of every request."""
        return {"authorization": f"Bearer {self.token}"} if self.token else {}


PLAINTEXT = Access()


def why_no_tls(error: BaseException, trust: Trust) -> str:
    """Why a TLS connection failed; empty if TLS was not the cause."""
    for found in causes_of(error):
        if isinstance(found, ssl.SSLCertVerificationError):
            return _refused(found, trust)
        if isinstance(found, ssl.SSLError):
            return "the server does not speak TLS, or not a common version of it"
    return ""


def _refused(error: ssl.SSLCertVerificationError, trust: Trust) -> str:
    code = error.verify_code
    if code == _EXPIRED:
        return "its certificate has expired: renew it"
    if code == _NOT_YET:
        return "its certificate is not valid yet: check the clocks of its issuer and this machine"
    if code in {_NAME, _ADDRESS}:
        name = trust.server_name or "this address"
        return f"its certificate is not for {name}"
    if code in _UNKNOWN_ISSUER:
        return f"the issuer of its certificate is not among {trust.named}: {trust.fix}"
    return f"its certificate is not accepted: {error.verify_message}"
