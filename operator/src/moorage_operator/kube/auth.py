"""The address of the API server and the operator's credentials.

They come from the kubeconfig in KUBECONFIG, otherwise from the service account of the pod. There
is no other default (no ~/.kube/config), so that the operator never uses a cluster that was not
selected. The result is a plain value, which both kopf and our own client use.
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

# Kubelets refresh a projected token long before it expires (after 80 % of an hour); like
# client-go, the operator reads the file again after a minute.
TOKEN_REREAD_SECONDS = 60.0


class AccessError(Exception):
    """There is no usable configuration for the API server; the message says what to set."""


@dataclass(frozen=True, slots=True)
class Access:
    """The address and credentials for the API server.

    Attributes:
        server: The base URL.
        ca: The PEM of the server's certificate authority, None for those of the system.
        ca_path: The file of the authority, which may be replaced.
        certificate: The PEM of the client certificate, None if a token is used.
        key: The PEM of its private key.
        token: A fixed bearer token.
        token_path: A file with a bearer token that is renewed.
        insecure: Whether the kubeconfig disables verification of the server's certificate.
    """

    server: str
    ca: str | None = None
    ca_path: Path | None = None
    certificate: str | None = None
    key: str | None = None
    token: str | None = None
    token_path: Path | None = None
    insecure: bool = False


def find(environ: Mapping[str, str], *, service_account: Path = SERVICE_ACCOUNT) -> Access:
    """Find the configuration of this process.

    Raises:
        AccessError: There is no configuration, or it cannot be used.
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
    """Read the service account of a pod.

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
    return Access(
        server=f"https://{literal}:{port}", ca=ca.read_text(), ca_path=ca, token_path=token
    )


def from_kubeconfig(paths: list[Path]) -> Access:
    """Read the current context; of several files, the first definition of a name is used.

    Raises:
        AccessError: A file cannot be read, or the context needs an exec plugin or an auth
            provider, which the operator does not support.
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
    ca_file = cluster.get("certificate-authority")
    is_inline = "certificate-authority-data" in cluster
    return Access(
        server=str(cluster.get("server", "")).rstrip("/"),
        ca=_pem(cluster, "certificate-authority", cluster_home),
        ca_path=cluster_home / ca_file if ca_file and not is_inline else None,
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
    """Build the TLS settings, None for plain HTTP.

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
    # delete=True and mode 0600: the key is on disk only while it is loaded.
    file = stack.enter_context(tempfile.NamedTemporaryFile("w"))  # noqa: SIM115 -- the stack closes it
    file.write(text)
    file.flush()
    return file.name


class Token:
    """The current bearer token.

    A token file is read again after a minute, and after the server answered 401.
    """

    def __init__(self, access: Access, *, clock: Callable[[], float]) -> None:
        self._access = access
        self._clock = clock
        self._text = access.token
        self._read_at: float | None = None

    def current(self) -> str | None:
        """Return the token, None if a client certificate is used.

        Raises:
            OSError: The file cannot be read, or is empty while it is being written.
        """
        path = self._access.token_path
        if path is None:
            return self._text
        now = self._clock()
        if self._read_at is None or now - self._read_at > TOKEN_REREAD_SECONDS:
            text = path.read_text().strip()
            if not text:  # without a token, requests would be anonymous
                raise OSError(f"{path} is empty")
            self._text, self._read_at = text, now
        return self._text

    def expire(self) -> None:
        """Read the file again at the next use."""
        self._read_at = None
