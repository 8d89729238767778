"""Signs a GET or HEAD for Amazon S3 and compatible servers. Pure.

Source: Amazon S3 API Reference, "Authenticating Requests: Using the Authorization Header (AWS
Signature Version 4)". A request without a body has the SHA-256 of the empty string as its payload.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, urlsplit

__all__ = ["AccessKey", "canonical_query", "quoted_path", "sign"]

EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
SERVICE = "s3"
ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class AccessKey:
    """The key that signs; `token` belongs to temporary keys and is empty for others."""

    id: str
    secret: str = field(repr=False)
    token: str = field(default="", repr=False)


def sign(
    method: str,
    url: str,
    headers: Mapping[str, str],
    *,
    key: AccessKey,
    region: str,
    now: datetime,
) -> dict[str, str]:
    """The headers to send: the given ones, all of them signed, and the signature.

    Args:
        method: GET or HEAD.
        url: Path and query as sent, from `quoted_path` and `canonical_query`.
        headers: Other headers to sign, such as Range.
        key: The key that signs.
        region: The bucket's region.
        now: The current time, with time zone; the server tolerates a difference of 15 minutes.
    """
    moment = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    parts = urlsplit(url)
    sent = {name.lower(): value for name, value in headers.items()}
    sent |= {"x-amz-content-sha256": EMPTY_SHA256, "x-amz-date": moment}
    if key.token:
        sent["x-amz-security-token"] = key.token
    signed = {**sent, "host": parts.netloc}
    names = ";".join(sorted(signed))
    request = "\n".join(
        (
            method,
            parts.path or "/",
            canonical_query(parts.query),
            *(f"{name}:{signed[name].strip()}" for name in sorted(signed)),
            "",
            names,
            EMPTY_SHA256,
        )
    )
    scope = f"{moment[:8]}/{region}/{SERVICE}/aws4_request"
    digest = hashlib.sha256(request.encode()).hexdigest()
    text = f"{ALGORITHM}\n{moment}\n{scope}\n{digest}"
    signature = hmac.new(_signing_key(key, scope), text.encode(), hashlib.sha256).hexdigest()
    credential = f"{ALGORITHM} Credential={key.id}/{scope}"
    return {**sent, "authorization": f"{credential},SignedHeaders={names},Signature={signature}"}


def canonical_query(query: str) -> str:
    """The query with each name and value encoded once, in the order for signing."""
    pairs = [
        (_quoted(name), _quoted(value)) for name, value in parse_qsl(query, keep_blank_values=True)
    ]
    return "&".join(f"{name}={value}" for name, value in sorted(pairs))


def quoted_path(path: str) -> str:
    """A key's path as S3 signs it: all bytes except unreserved ones and '/' are encoded once."""
    return quote(path)


def _quoted(text: str) -> str:
    return quote(text, safe="")


def _signing_key(key: AccessKey, scope: str) -> bytes:
    made = f"AWS4{key.secret}".encode()
    for part in scope.split("/"):
        made = hmac.new(made, part.encode(), hashlib.sha256).digest()
    return made
