"""TLS certificates and bearer tokens from files, which are reloaded when they change.

Kubernetes replaces the files of a mounted Secret while the process runs, and renewing a
certificate or rotating a token must not require a restart. An invalid replacement is logged, and
the previous one stays in use.
"""

import logging
import pathlib
import re
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from moorage_runtime.frontends.http.authorization import BearerToken
from moorage_runtime.values.errors import InvalidConfig

if TYPE_CHECKING:
    import grpc

log = logging.getLogger(__name__)

_BEARER: Final = "bearer "
_SETTING: Final = "--token-file (MOORAGE_TOKEN_FILE):"
# Paths without a token: probes of kubelets and load balancers send none.
_OPEN_PATHS: Final = frozenset(
    {"/v2/health/live", "/v2/health/ready", "/grps/v1/health/live", "/grps/v1/health/ready"}
)
# Not the metadata of a model or of a version that is named "ready".
_MODEL_READY: Final = re.compile(r"/v2/models/[^/]+(/versions/[^/]+)?/ready")
_OPEN_METHODS: Final = frozenset(
    {
        "/inference.GRPCInferenceService/ServerLive",
        "/inference.GRPCInferenceService/ServerReady",
        "/inference.GRPCInferenceService/ModelReady",
        "/grps.protos.v1.GrpsService/CheckLiveness",
        "/grps.protos.v1.GrpsService/CheckReadiness",
        # not List, which returns the names of all models
        "/grpc.health.v1.Health/Check",
        "/grpc.health.v1.Health/Watch",
    }
)


def is_open_path(method: str, path: str) -> bool:
    """Whether an HTTP request needs no token: live, ready, and model readiness."""
    if method not in ("GET", "HEAD"):
        return False
    return path in _OPEN_PATHS or _MODEL_READY.fullmatch(path) is not None


def is_open_method(path: str) -> bool:
    """Whether a gRPC call needs no token: live, ready, model readiness, and health checks."""
    return path in _OPEN_METHODS


class Certificate:
    """One certificate with its key, for both ports.

    Attributes:
        context: TLS context for HTTP/1.1.
        http2_context: TLS context for HTTP/2, which it offers with ALPN.

    Args:
        certificate: PEM file with the certificate and its chain.
        key: PEM file with the private key.

    Raises:
        InvalidConfig: A file cannot be read, the two do not match, or the key is encrypted.
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
        """The certificate for a grpcio server, which requests it for every connection."""
        import grpc  # noqa: PLC0415 - large, and only needed with grpcio

        def configuration() -> grpc.ServerCertificateConfiguration:
            certificate, key = self._pem
            return grpc.ssl_server_certificate_configuration([(key, certificate)])

        return grpc.dynamic_ssl_server_credentials(configuration(), configuration)

    def refresh(self) -> None:
        """Reload changed files; open connections keep the previous certificate."""
        try:
            pem = self._read()
            if pem == self._pem:
                return
            self._load()
        except InvalidConfig as fault:
            log.error("%s; the previous certificate stays in use", fault.message)  # noqa: TRY400 - expected
            return
        self._pem = pem
        log.info("reloaded the changed certificate")

    def _read(self) -> tuple[bytes, bytes]:
        try:
            return self._certificate.read_bytes(), self._key.read_bytes()
        except OSError as error:
            raise InvalidConfig(
                f"the TLS file '{error.filename}' cannot be read: {error.strerror}"
            ) from error

    def _load(self) -> None:
        try:
            # checked with a new context first: a context keeps half of a pair that does not match
            for context in (_make_context(), self.context, self.http2_context):
                context.load_cert_chain(self._certificate, self._key, _refuse_to_decrypt)
        except ssl.SSLError as error:
            reason = error.reason or "one of the two files is not PEM"
            raise InvalidConfig(f"the certificate and its key are invalid: {reason}") from error
        except OSError as error:
            raise InvalidConfig(f"a TLS file cannot be read: {error.strerror}") from error


def _refuse_to_decrypt() -> str:
    """Called for an encrypted key, instead of a prompt in the terminal."""
    raise InvalidConfig("the TLS key is encrypted: must have no passphrase")


def _make_context() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class Token:
    """Bearer tokens from files, one per line, so that two are valid during a rotation.

    Args:
        file: The file, or a folder of files such as a mounted Secret; blank lines are ignored.

    Raises:
        InvalidConfig: A file cannot be read, or none contains a token.
    """

    def __init__(self, file: pathlib.Path) -> None:
        self._file = file
        self._tokens = self._read()
        self.admission = BearerToken(self._tokens, is_open_path)

    def refresh(self) -> None:
        """Reload a changed file."""
        try:
            tokens = self._read()
        except InvalidConfig as fault:
            log.error("%s; the previous tokens stay in use", fault.message)  # noqa: TRY400 - expected
            return
        if tokens != self._tokens:
            self._tokens = tokens
            self.admission.replace(tokens)
            log.info("reloaded the changed bearer tokens")

    def authorize(self, path: str, metadata: Mapping[str, str]) -> bool:
        """Whether a gRPC call is allowed."""
        if is_open_method(path):
            return True
        given = metadata.get("authorization", "")
        return given[: len(_BEARER)].lower() == _BEARER and self.admission.knows(
            given[len(_BEARER) :].strip()
        )

    def _read(self) -> list[str]:
        tokens: list[str] = []
        file = self._file
        try:
            for file in _files(self._file):
                tokens += [line.strip() for line in file.read_text().splitlines()]
        except OSError as error:
            raise InvalidConfig(f"{_SETTING} {file} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise InvalidConfig(f"{_SETTING} {file} cannot be read: it is not UTF-8") from error
        found = [token for token in tokens if token]
        if not found:
            raise InvalidConfig(
                f"{_SETTING} {self._file} contains no token: must have one token per line"
            )
        return found


def _files(path: pathlib.Path) -> list[pathlib.Path]:
    """Return the file itself, or the files of a folder by name.

    The kubelet keeps the content of a Secret in entries that begin with `..`, which keys cannot.
    """
    if not path.is_dir():
        return [path]
    return sorted(
        each for each in path.iterdir() if each.is_file() and not each.name.startswith("..")
    )
