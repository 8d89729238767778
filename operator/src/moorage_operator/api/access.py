"""`spec.tls` and `spec.access`: the Secrets with a server's certificate and its clients' tokens.

    parse --> Tls, TokenAccess --> resources.server_secrets (mounts), ProbeTarget (names only)

The contents of the Secrets never become part of a spec, a plan, a status or an event.
"""

import re
from dataclasses import dataclass

from .fields import Fields
from .model_spec import parse_object_name

__all__ = ["Tls", "TokenAccess", "parse_tls", "parse_token_access"]

# RFC 1123 name of a host; a certificate for an IP address has no use in a cluster.
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
HOST_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
HOST_NAME_LENGTH = 253


@dataclass(frozen=True, slots=True)
class Tls:
    """`spec.tls`. With no `secret_name` the servers speak plaintext.

    An empty `server_name` means the host name of the Service: NAME.NAMESPACE.svc.
    """

    secret_name: str = ""
    server_name: str = ""

    def __bool__(self) -> bool:
        """Whether the servers speak TLS."""
        return bool(self.secret_name)


@dataclass(frozen=True, slots=True)
class TokenAccess:
    """`spec.access`. With no `token_secret_name` every client that reaches a server may use it."""

    token_secret_name: str = ""


def parse_tls(fields: Fields) -> Tls:
    """Read the section; record invalid values as problems."""
    tls = Tls(
        secret_name=parse_object_name(fields, "secretName", "a Secret"),
        server_name=_parse_host_name(fields, "serverName"),
    )
    _require(fields, "secretName", "the name of a Secret of type kubernetes.io/tls")
    fields.unknown()
    return tls


def parse_token_access(fields: Fields) -> TokenAccess:
    """Read the section; record invalid values as problems."""
    access = TokenAccess(parse_object_name(fields, "tokenSecretName", "a Secret"))
    _require(fields, "tokenSecretName", "the name of a Secret with one bearer token per line")
    fields.unknown()
    return access


def _require(fields: Fields, name: str, expected: str) -> None:
    if fields.is_given and not fields.peek(name):
        fields.require(name, expected)


def _parse_host_name(fields: Fields, name: str) -> str:
    text = fields.text(name)
    if text and (len(text) > HOST_NAME_LENGTH or not HOST_NAME.fullmatch(text)):
        fields.reject(name, text, "a host name of the certificate, such as iris.example.com")
        return ""
    return text
