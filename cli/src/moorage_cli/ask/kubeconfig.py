"""Reads a kubeconfig as kubectl does, and says what is wrong with it before a request is sent.

    files --> sections --> cluster and user of the context --> the configuration of `kubernetes`

The `kubernetes` package sends requests without credentials if those of the user cannot be read,
and takes the current context of the last file instead of the first one.
"""

import base64
import binascii
import logging
import os
import shutil
import ssl
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import yaml

from kubernetes import client, config
from moorage_cli.ask.api_failures import NoCluster
from moorage_cli.ask.proxies import parse_proxy, use_proxy
from moorage_cli.ask.standard_streams import complain
from moorage_cli.manifests.object_names import NAMESPACE_NAME, is_namespace_name
from moorage_cli.printing.failures import Failure, reason_of
from moorage_cli.printing.sanitizing import clean

__all__ = ["Loaded", "load_kubeconfig"]

DEFAULT_PATH = "~/.kube/config"
SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}
TEXTS = {
    "cluster": (
        "server", "certificate-authority", "certificate-authority-data", "tls-server-name",
        "proxy-url",
    ),
    "user": (
        "token", "tokenFile", "username", "password", "client-certificate",
        "client-certificate-data", "client-key", "client-key-data",
    ),
    "context": ("cluster", "user", "namespace"),
}  # fmt: skip
BEARER = "BearerToken"  # the name of the package for the header Authorization
INSECURE = "insecure-skip-tls-verify"
IMPERSONATION = ("as", "as-uid", "as-groups", "as-user-extra")


class _Wrong(Exception):
    """What is wrong with a kubeconfig, as a sentence that names the field."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """One item of a section: its path in messages, its fields, and the file that it is in."""

    path: str
    fields: Mapping[str, Any]
    file: str = ""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a kubeconfig says.

    Args:
        configuration: Of the client.
        context: Name of the context.
        namespace: Of the context.
    """

    configuration: Any
    context: str
    namespace: str


def load_kubeconfig(given: str, context: str) -> Loaded:
    """Load a context.

    Args:
        given: The path of `--kubeconfig`; empty for KUBECONFIG or ~/.kube/config.
        context: The name of the context; empty for the current one.

    Raises:
        NoCluster: No file is given and none exists, or all are empty.
        Failure: A file or the context is not usable.
    """
    listed = given or os.environ.get("KUBECONFIG") or DEFAULT_PATH
    paths = [os.path.expanduser(each) for each in listed.split(os.pathsep) if each]  # noqa: PTH111 - as text
    named = f"--kubeconfig: {given}" if given else listed
    try:
        documents = {each: found for each in paths if (found := _document(each)) is not None}
        if documents:
            return _loaded(documents, context)
    except _Wrong as wrong:
        raise Failure(f"{named} is not a usable kubeconfig: {wrong}") from wrong
    if not given:
        raise NoCluster(
            f"no cluster is configured: no kubeconfig exists at {listed}, or it is empty: set "
            "--kubeconfig or KUBECONFIG, or create ~/.kube/config"
        )
    exists = any(os.path.exists(each) for each in paths)  # noqa: PTH110 - as text
    reason = "it is empty" if exists else "no such file or directory"
    raise Failure(f"{named} is not a usable kubeconfig: {reason}")


def _document(path: str) -> Mapping[str, Any] | None:
    """The content of a file; None if it does not exist or is empty."""
    try:
        found = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise _Wrong(reason_of(error)) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _Wrong(f"{path} is not valid YAML") from error
    if found is None:
        return None
    if not isinstance(found, Mapping):
        raise _Wrong("it must be an object with clusters, users and contexts")
    return cast("Mapping[str, Any]", found)


def _loaded(files: Mapping[str, Mapping[str, Any]], context: str) -> Loaded:
    documents = list(files.values())
    contexts = _section(files, "contexts")
    current = next((found for each in documents if (found := each.get("current-context"))), "")
    chosen = context or _text(current, "current-context")
    if context and context not in contexts:
        raise Failure(f"--context: {context!r} does not exist: {_one_of(contexts)}")
    if not contexts and not chosen:
        raise _Wrong(
            "it has no contexts: add the cluster to it, or set KUBECONFIG to another file"
        )
    if not chosen:
        raise _Wrong(f"current-context is not set: set --context, which {_one_of(contexts)}")
    chosen_context = _found(contexts, chosen, "current-context")
    fields, path = chosen_context.fields, chosen_context.path
    clusters, users = (_section(files, each) for each in ("clusters", "users"))
    cluster = _found(clusters, fields.get("cluster", ""), f"{path}.cluster")
    user_name = fields.get("user", "")
    user = _found(users, user_name, f"{path}.user") if user_name else _Entry("users", {})
    namespace = fields.get("namespace") or "default"
    if not is_namespace_name(namespace):
        raise _Wrong(f"{path}.namespace: {namespace!r} is invalid: must be {NAMESPACE_NAME}")
    _check_cluster(cluster)
    _check_user(user)
    return Loaded(_configuration(list(files), chosen, cluster, user), chosen, namespace)


def _section(files: Mapping[str, Mapping[str, Any]], section: str) -> dict[str, _Entry]:
    """The items by name; of several with one name, the first, as for kubectl."""
    found: dict[str, _Entry] = {}
    kind = SECTIONS[section]
    for file, document in files.items():
        items = document.get(section) or []
        if not isinstance(items, list):
            raise _Wrong(f"{section} must be a list")
        for at, item in enumerate(cast("list[Any]", items)):
            name = item.get("name") if isinstance(item, Mapping) else None
            if not isinstance(name, str):
                raise _Wrong(f"{section}[{at}].name must be a string")
            fields = cast("Mapping[str, Any]", item).get(kind)
            path = f"{section}[{name}].{kind}"
            if fields is not None and not isinstance(fields, Mapping):
                raise _Wrong(f"{path} must be an object")
            if fields is None and kind == "context":
                raise _Wrong(f"{path} is required")
            known = cast("Mapping[str, Any]", fields or {})
            for each in TEXTS[kind]:
                _text(known.get(each), f"{path}.{each}")
            found.setdefault(name, _Entry(path, known, file))
    return found


def _text(value: object, path: str) -> str:
    """A string; its value may be a secret, so a message does not repeat it."""
    if value is not None and not isinstance(value, str):
        raise _Wrong(f"{path} must be a string: put it in quotes")
    return value or ""


def _found(entries: Mapping[str, _Entry], name: str, path: str) -> _Entry:
    if name not in entries:
        raise _Wrong(f"{path}: {name!r} does not exist: {_one_of(entries)}")
    return entries[name]


def _one_of(names: Mapping[str, object]) -> str:
    return f"must be one of {', '.join(names)}" if names else "there are none"


def _check_cluster(cluster: _Entry) -> None:
    path, fields = cluster.path, cluster.fields
    # the package takes every text for true, also "false"
    if not isinstance(fields.get(INSECURE) or False, bool):
        raise _Wrong(f"{path}.{INSECURE} must be true or false, without quotes")
    if fields.get(INSECURE):
        for each in ("certificate-authority", "certificate-authority-data"):
            if fields.get(each):
                raise _Wrong(f"{path}.{INSECURE} is true, and {path}.{each} is set: remove one")
    _check_server(fields.get("server", ""), f"{path}.server")
    _check_base64(cluster, "certificate-authority-data")
    if proxy := fields.get("proxy-url", ""):
        try:
            parse_proxy(proxy)
        except ValueError as error:
            raise _Wrong(f"{path}.proxy-url{error}") from error


def _check_server(url: str, path: str) -> None:
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or any(char.isspace() for char in url):
        raise _Wrong(f"{path}: {url!r} is invalid: must be http://HOST:PORT or https://HOST:PORT")


def _check_user(user: _Entry) -> None:
    # The package sends its requests as the user itself, who may do more.
    for each in IMPERSONATION:
        if user.fields.get(each):
            raise _Wrong(
                f"{user.path}.{each}: impersonation is not supported: use the credentials of the "
                "user to act as"
            )
    for each in ("client-certificate-data", "client-key-data"):
        _check_base64(user, each)
    _check_token(user.fields.get("token") or "", f"{user.path}.token")
    _check_oidc(user)
    command = user.fields.get("exec")
    if command is None:
        return
    if not isinstance(command, Mapping):
        raise _Wrong(f"{user.path}.exec must be an object")
    for each in ("apiVersion", "command"):
        if not _text(cast("Mapping[str, Any]", command).get(each), f"{user.path}.exec.{each}"):
            raise _Wrong(f"{user.path}.exec.{each} is required")


def _check_oidc(user: _Entry) -> None:
    # Without a CA, the package asks any server where to send the refresh token and the secret.
    provider: Any = user.fields.get("auth-provider")
    given: Any = provider.get("config") if isinstance(provider, Mapping) else None
    if not isinstance(given, Mapping) or not given.get("refresh-token"):
        return
    field = "idp-certificate-authority"
    if not any(given.get(each) for each in (field, f"{field}-data")):
        raise _Wrong(
            f"{user.path}.auth-provider.config.{field} is required, to verify the identity "
            "provider: name a file of CA certificates, such as /etc/ssl/certs/ca-certificates.crt"
        )


def _check_token(token: str, path: str) -> None:
    if not _is_token(token):
        raise _Wrong(f"{path} has a character that no token has, such as a newline")


def _is_token(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _check_base64(entry: _Entry, name: str) -> None:
    try:
        base64.b64decode("".join((entry.fields.get(name) or "").split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise _Wrong(f"{entry.path}.{name} is not valid base64") from error


def _configuration(paths: Sequence[str], context: str, cluster: _Entry, user: _Entry) -> Any:
    """The configuration as the `kubernetes` package loads it, with credentials that are usable."""
    made: Any = client.Configuration()
    try:
        with _logged_errors() as problems:
            config.load_kube_config(os.pathsep.join(paths), context, client_configuration=made)
    except config.ConfigException as error:
        # the rest of a message about a missing key repeats the entry with its secrets
        said = str(error).partition(" in ")[0] if "{" in str(error) else str(error)
        raise _Wrong(said.rstrip(".")) from error
    except OSError as error:
        where = error.filename or "a file that it names"
        raise _Wrong(f"{where}: {reason_of(error)}") from error
    except Exception as error:  # the libraries of auth-provider raise any
        raise _Wrong(f"{user.path}: {str(error).rstrip('.')}") from error
    has_credentials = made.api_key or made.cert_file
    if "auth-provider" in user.fields and not has_credentials:
        raise _Wrong(
            f"{user.path}.auth-provider gave no credentials: use exec with the credential plugin "
            "of your cluster instead"
        )
    if user.fields.get("tokenFile") and "auth-provider" not in user.fields:
        _follow_token(made, Path(user.file).parent / user.fields["tokenFile"])
    elif made.refresh_api_key_hook:
        _strip_token(made, made.refresh_api_key_hook, f"{user.path}.exec")
    if made.refresh_api_key_hook and BEARER in made.api_key:
        source = "exec" if "exec" in user.fields else "tokenFile"
        _check_token(made.api_key[BEARER], f"{user.path}: the token of {source}")
    if "exec" in user.fields and not has_credentials:
        reasons = [*problems, *_install_hint(user.fields["exec"])]
        command, reason = user.fields["exec"]["command"], "; ".join(reasons) or "it printed none"
        raise _Wrong(f"{user.path}.exec: {command} gave no credentials: {reason}")
    if made.host.startswith("https"):
        _check_certificates(made, cluster, user)
    use_proxy(made, cluster.fields.get("proxy-url", ""))
    return made


def _install_hint(plugin: Mapping[str, Any]) -> list[str]:
    """How to install a credential plugin that is not on the PATH, if the kubeconfig says so."""
    command, hint = plugin["command"], plugin.get("installHint")
    is_found = os.sep in command or shutil.which(command)
    return [] if is_found or not hint else [" ".join(str(hint).split())]


def _strip_token(made: Any, renew: Callable[[Any], None], source: str) -> None:
    """Remove the newline at the end of the token, such as that of a file, before each use.

    If a credential plugin fails to renew it, the last token is used, and a message says so once.
    """
    has_failed = False

    def renew_stripped(configuration: Any) -> None:
        nonlocal has_failed
        with _logged_errors() as problems:
            renew(configuration)  # which makes itself the hook again
        configuration.api_key[BEARER] = configuration.api_key[BEARER].strip()
        configuration.refresh_api_key_hook = renew_stripped
        if problems and not has_failed:
            has_failed = True
            complain(f"moorage: {source} does not renew the token: {clean('; '.join(problems))}\n")

    renew_stripped(made)


def _follow_token(made: Any, path: Path) -> None:
    """Read the token of a file before each use, as a program may renew it.

    Like kubectl, it prefers the file to the field `token`, and keeps the last token if the file
    cannot be read.
    """

    def renew(configuration: Any) -> None:
        with suppress(OSError, UnicodeDecodeError):
            token = path.read_text(encoding="utf-8").strip()
            if token and _is_token(token):
                configuration.api_key[BEARER] = f"Bearer {token}"

    made.refresh_api_key_hook = renew
    renew(made)


def _check_certificates(made: Any, cluster: _Entry, user: _Entry) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if made.ssl_ca_cert:
        try:
            context.load_verify_locations(made.ssl_ca_cert)
        except (OSError, ValueError) as error:
            raise _Wrong(
                f"{cluster.path}.certificate-authority has no valid certificate in PEM"
            ) from error
    if made.cert_file:
        try:
            context.load_cert_chain(made.cert_file, made.key_file, lambda: b"")
        except (OSError, ValueError) as error:
            raise _Wrong(
                f"{user.path}: client-certificate and client-key are not a certificate and its "
                "unencrypted key in PEM"
            ) from error


@contextmanager
def _logged_errors() -> Generator[list[str]]:
    """Collect what the `kubernetes` package logs in place of raising it."""
    found: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage().removeprefix("exec: "))

    root, collector = logging.getLogger(), Collector()
    root.addHandler(collector)
    try:
        yield found
    finally:
        root.removeHandler(collector)
