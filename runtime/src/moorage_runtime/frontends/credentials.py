"""TLS certificates and bearer tokens from files, taken anew when the files change.

Kubernetes replaces the files of a mounted Secret while the process runs; a certificate that is
renewed, or a token that is rotated, must not need a restart. A replacement that cannot be used is
logged and the one before stays.
"""

import logging
import pathlib
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from moorage_runtime.errors import InvalidConfig
from moorage_runtime.frontends.http.authorization import BearerToken

if TYPE_CHECKING:
    import grpc

log = logging.getLogger(__name__)

_BEARER: Final = "bearer "
# What needs no token: probes of kubelets and load balancers carry none.
_OPEN_PATHS: Final = frozenset(
    {"/v2/health/live", "/v2/health/ready", "/grps/v1/health/live", "/grps/v1/health/ready"}
)
_OPEN_METHODS: Final = frozenset(
    {
        "/inference.GRPCInferenceService/ServerLive",
        "/inference.GRPCInferenceService/ServerReady",
        "/inference.GRPCInferenceService/ModelReady",
        "/grps.protos.v1.GrpsService/CheckLiveness",
        "/grps.protos.v1.GrpsService/CheckReadiness",
    }
)


def is_open_path(method: str, path: str) -> bool:
    """Whether an HTTP request needs no token: live, ready, and a model's readiness."""
    if method not in ("GET", "HEAD"):
        return False
    return path in _OPEN_PATHS or (path.startswith("/v2/models/") and path.endswith("/ready"))


def is_open_method(path: str) -> bool:
    """Whether a gRPC call needs no token: live, ready, a model's readiness, and health checks."""
    return path in _OPEN_METHODS or path.startswith("/grpc.health.v1.Health/")


class Certificate:
    """One certificate with its key, for both ports.

    Attributes:
        context: For HTTP/1.1.
        http2_context: For HTTP/2; it says so by ALPN.

    Args:
        certificate: PEM file with the certificate and its chain.
        key: PEM file with the private key.

    Raises:
        InvalidConfig: A file cannot be read, or the two do not fit.
    """

    def __init__(self, certificate: pathlib.Path, key: pathlib.Path) -> None:
        self._certificate = certificate
        self._key = key
        self.context = _make_context()
        self.http2_context = _make_context()
        self.http2_context.set_alpn_protocols(["h2"])
        self._pem = self._read()
        self._load()

    def grpcio_credentials(self) -> "grpc.ServerCredentials":
        """The certificate for a server of grpcio, which asks for it with every connection."""
        import grpc  # noqa: PLC0415 - large, and only who serves by grpcio needs it

        def configuration() -> grpc.ServerCertificateConfiguration:
            certificate, key = self._pem
            return grpc.ssl_server_certificate_configuration([(key, certificate)])

        return grpc.dynamic_ssl_server_credentials(configuration(), configuration)

    def refresh(self) -> None:
        """Take changed files; connections that are open keep what they have."""
        try:
            pem = self._read()
            if pem == self._pem:
                return
            self._load()
        except InvalidConfig as fault:
            log.error("%s; the certificate before it stays", fault.message)  # noqa: TRY400 - expected
            return
        self._pem = pem
        log.info("took the renewed certificate")

    def _read(self) -> tuple[bytes, bytes]:
        try:
            return self._certificate.read_bytes(), self._key.read_bytes()
        except OSError as error:
            raise InvalidConfig(f"cannot read the certificate: {error.strerror}") from error

    def _load(self) -> None:
        try:
            # checked apart first: a context keeps the half that it took of a pair that differs
            for context in (_make_context(), self.context, self.http2_context):
                context.load_cert_chain(self._certificate, self._key)
        except (OSError, ssl.SSLError) as error:
            reason = getattr(error, "reason", None) or str(error)
            raise InvalidConfig(f"the certificate and its key cannot be used: {reason}") from error


def _make_context() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class Token:
    """Bearer tokens from a file, one a line, so that two are valid while they are rotated.

    Args:
        file: The file; blank lines do not count.

    Raises:
        InvalidConfig: The file cannot be read or holds no token.
    """

    def __init__(self, file: pathlib.Path) -> None:
        self._file = file
        self._tokens = self._read()
        self.admission = BearerToken(self._tokens, is_open_path)

    def refresh(self) -> None:
        """Take a changed file."""
        try:
            tokens = self._read()
        except InvalidConfig as fault:
            log.error("%s; the tokens before it stay", fault.message)  # noqa: TRY400 - expected
            return
        if tokens != self._tokens:
            self._tokens = tokens
            self.admission.replace(tokens)
            log.info("took the changed bearer tokens")

    def authorize(self, path: str, metadata: Mapping[str, str]) -> bool:
        """Whether a gRPC call may go on."""
        if is_open_method(path):
            return True
        given = metadata.get("authorization", "")
        return given[: len(_BEARER)].lower() == _BEARER and self.admission.knows(
            given[len(_BEARER) :].strip()
        )

    def _read(self) -> list[str]:
        try:
            tokens = [line.strip() for line in self._file.read_text().splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidConfig(f"cannot read the bearer tokens: {error}") from error
        found = [token for token in tokens if token]
        if not found:
            raise InvalidConfig("the file of bearer tokens is empty, expected a token a line")
        return found
