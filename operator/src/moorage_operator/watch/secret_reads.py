"""Reads single Secrets by name, for connections to servers with TLS and tokens.

Secrets are never listed or watched, so the operator needs no right that covers Secrets other than
those that models name. Whether it may read one is decided by the API server alone: by a
RoleBinding in the namespace, or by the chart's `rbac.readSecrets`.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, cast

from moorage_operator.kube import errors, kinds
from moorage_operator.kube.client import KubeClient
from moorage_operator.values.secret_content import ReadSecret, Unread
from moorage_operator.values.words import quoted

__all__ = ["reading_by"]

TIMEOUT_SECONDS = 5.0

# Kubernetes, RBAC authorizer: 'secrets "x" is forbidden: User "NAME" cannot get resource ...'.
_USER = re.compile(r'User "([^"]+)"')


def reading_by(client: KubeClient) -> ReadSecret:
    """Return a function that reads Secrets with this client."""

    async def read(namespace: str, name: str) -> Mapping[str, bytes] | Unread:
        try:
            found = await client.get(
                kinds.SECRETS, namespace, name, timeout_seconds=TIMEOUT_SECONDS
            )
        except errors.NotFound:
            return Unread("does not exist")
        except errors.Forbidden as error:
            user = _USER.search(error.message)
            return Unread("may not be read by the operator", user[1] if user else "the operator")
        except errors.ApiError as error:
            return Unread(f"could not be read: {quoted(error.message)}")
        return _decoded(found.get("data"))

    return read


def _decoded(data: Any) -> Mapping[str, bytes]:
    """Decode the values; the API server guarantees that they are base64."""
    values = cast("Mapping[str, str]", data or {})
    try:
        return {key: base64.b64decode(value or "") for key, value in values.items()}
    except binascii.Error:
        return {}
