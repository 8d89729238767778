"""Where the API server is and how the operator proves who it is.

Two sources: the kubeconfig that KUBECONFIG names, else the service account of the pod. Nothing is
guessed beyond that (no ~/.kube/config), so that the operator never talks to a cluster that it was
not told to use. The result is a plain value; kopf's login and our own client are built from it.
"""

import base64
import binascii
import ssl
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

# Kubelets refresh a projected token long before it expires (after 80 % of an hour); client-go
# reads the file again after a minute, and so does this.
TOKEN_REREAD_SECONDS = 60.0


class AccessError(Exception):
    """No usable way to the API server was given; the message says what to set."""


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach the API server.

    Attributes:
        server: Base URL.
        ca: PEM of the server's authority, None for the system's.
        certificate: PEM of the client certificate, None when a token is used.
        key: PEM of its private key.
        token: Fixed bearer token.
        token_path: File with a bearer token that is renewed from time to time.
        insecure: Whether the server's certificate is not checked (a kubeconfig may say so).
    """

    server: str
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    token: str | None = None
    token_path: Path | None = None
    insecure: bool = False


def find(environ: Mapping[str, str], *, service_account: Path = SERVICE_ACCOUNT) -> Access:
    """The access that this process was given.

    Raises:
        AccessError: No source is there, or the one that is there cannot be used.
    """
    if configured := environ.get("KUBECONFIG"):
        return from_kubeconfig([Path(part) for part in configured.split(":") if part])
    if host := environ.get("KUBERNETES_SERVICE_HOST"):
        port = environ.get("KUBERNETES_SERVICE_PORT", "443")
        return from_service_account(host, port, service_account)
    raise AccessError(
        "no API server is configured: set KUBECONFIG to a kubeconfig file, or run in a pod with a "
        "service account (KUBERNETES_SERVICE_HOST is not set)"
    )


def from_service_account(host: str, port: str, folder: Path) -> Access:
    """The access of a pod's service account.

    Raises:
        AccessError: The token or the authority's certificate is not mounted.
    """
    ca, token = folder / "ca.crt", folder / "token"
    for path in (ca, token):
        if not path.is_file():
            raise AccessError(
                f"{path} is missing: the pod needs automountServiceAccountToken: true"
            )
    literal = f"[{host}]" if ":" in host else host
    return Access(server=f"https://{literal}:{port}", ca=ca.read_text(), token_path=token)


def from_kubeconfig(paths: list[Path]) -> Access:
    """The access of the current context; of several files the first to name a thing wins.

    Raises:
        AccessError: A file cannot be read, or the context needs what the operator does not do
            (an exec plugin or an auth provider).
    """
    loaded = [(path, _load(path)) for path in paths]
    current = next((doc["current-context"] for _, doc in loaded if doc.get("current-context")), "")
    if not current:
        raise AccessError(f"no current-context in {_listed(paths)}")
    _, context = _named(loaded, "contexts", "context", current)
    cluster_home, cluster = _named(loaded, "clusters", "cluster", str(context.get("cluster")))
    user_home, user = _named(loaded, "users", "user", str(context.get("user")))
    for unsupported in ("exec", "auth-provider", "username", "impersonate", "as"):
        if unsupported in user:
            raise AccessError(
                f"the user of context {current!r} has {unsupported!r}, which the operator does "
                "not support: use a client certificate or a token"
            )
    token_file = user.get("tokenFile")
    return Access(
        server=str(cluster.get("server", "")).rstrip("/"),
        ca=_pem(cluster, "certificate-authority", cluster_home),
        certificate=_pem(user, "client-certificate", user_home),
        key=_pem(user, "client-key", user_home),
        token=user.get("token"),
        token_path=user_home / token_file if token_file else None,
        insecure=bool(cluster.get("insecure-skip-tls-verify", False)),
    )


def _load(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise AccessError(f"KUBECONFIG: {path} cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise AccessError(f"KUBECONFIG: {path} is not a kubeconfig")
    return cast("dict[str, Any]", document)


def _named(
    loaded: list[tuple[Path, dict[str, Any]]], plural: str, singular: str, name: str
) -> tuple[Path, dict[str, Any]]:
    for path, document in loaded:
        for entry in document.get(plural) or []:
            if entry.get("name") == name:
                return path.parent, entry.get(singular) or {}
    raise AccessError(f"no {singular} {name!r} in {_listed([path for path, _ in loaded])}")


def _listed(paths: list[Path]) -> str:
    return ", ".join(str(path) for path in paths)


def _pem(entry: Mapping[str, Any], field: str, home: Path) -> str | None:
    try:
        if data := entry.get(f"{field}-data"):
            return base64.b64decode(data, validate=True).decode()
        if path := entry.get(field):
            return (home / path).read_text()
    except (OSError, binascii.Error, UnicodeDecodeError) as error:
        raise AccessError(f"{field} of the kubeconfig cannot be read: {error}") from error
    return None


def ssl_context(access: Access) -> ssl.SSLContext | None:
    """TLS settings for the access, None when the server is plain HTTP.

    Raises:
        AccessError: A certificate or key is not valid PEM.
    """
    if not access.server.startswith("https://"):
        return None
    try:
        context = ssl.create_default_context(cadata=access.ca)
        if access.certificate and access.key:
            with ExitStack() as stack:
                # The ssl module loads client certificates from files only.
                files = [_temporary(stack, text) for text in (access.certificate, access.key)]
                context.load_cert_chain(*files)
    except (ssl.SSLError, ValueError) as error:
        raise AccessError(f"a certificate or key cannot be used: {error}") from error
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _temporary(stack: ExitStack, text: str) -> str:
    # delete=True and mode 0600: the key is on disk only for the moment of loading.
    file = stack.enter_context(tempfile.NamedTemporaryFile("w"))  # noqa: SIM115 -- the stack closes it
    file.write(text)
    file.flush()
    return file.name


class Token:
    """The bearer token as it is now.

    A token file is read again when it was read a minute ago, or when the server said 401.
    """

    def __init__(self, access: Access, *, clock: Callable[[], float]) -> None:
        self._access = access
        self._clock = clock
        self._text = access.token
        self._read_at: float | None = None

    def current(self) -> str | None:
        """The token, None when the client certificate speaks."""
        if self._access.token_path is None:
            return self._text
        now = self._clock()
        if self._read_at is None or now - self._read_at > TOKEN_REREAD_SECONDS:
            self._text = self._access.token_path.read_text().strip()
            self._read_at = now
        return self._text

    def expire(self) -> None:
        """Have the file read again at the next use."""
        self._read_at = None
