"""Signs a GET or HEAD for Azure Blob Storage with the key of the account. Pure.

Source: Azure Storage documentation, "Authorize with Shared Key", version 2015-02-21 and later.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from urllib.parse import parse_qsl, urlsplit

from moorage_runtime.fetch.decide.failures import BadSource

__all__ = ["AccountKey", "make_account_key", "sign"]

# The headers of the string to sign, in its order.
SIGNED = (
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
)


@dataclass(frozen=True, slots=True)
class AccountKey:
    """One of the two keys of a storage account."""

    account: str
    secret: bytes = field(repr=False)


def make_account_key(account: str, text: str) -> AccountKey:
    """The key from its text in base64.

    Raises:
        BadSource: The text is not base64.
    """
    try:
        return AccountKey(account, base64.b64decode(text, validate=True))
    except ValueError as error:
        raise BadSource(
            "the key AZURE_STORAGE_KEY of the Secret is not valid base64: copy one of the access "
            "keys of the storage account"
        ) from error


def sign(
    method: str, url: str, headers: Mapping[str, str], *, key: AccountKey, now: datetime
) -> dict[str, str]:
    """The headers to send: the given ones, the date and the signature.

    Args:
        method: GET or HEAD.
        url: The URL as sent, with an encoded path and query.
        headers: Other headers; Range, conditions and x-ms-* are part of the signature.
        key: The key that signs.
        now: The current time, with time zone; the server tolerates a difference of 15 minutes.
    """
    sent = {name.lower(): value for name, value in headers.items()}
    sent["x-ms-date"] = format_datetime(now.astimezone(UTC), usegmt=True)
    parts = urlsplit(url)
    query: dict[str, list[str]] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        query.setdefault(name.lower(), []).append(value)
    text = "\n".join(
        (
            method,
            *(sent.get(name, "") for name in SIGNED),
            *(f"{name}:{sent[name].strip()}" for name in sorted(sent) if name[:5] == "x-ms-"),
            f"/{key.account}{parts.path or '/'}",
            *(f"{name}:{','.join(sorted(query[name]))}" for name in sorted(query)),
        )
    )
    digest = hmac.new(key.secret, text.encode(), hashlib.sha256).digest()
    signature = base64.b64encode(digest).decode()
    return {**sent, "authorization": f"SharedKey {key.account}:{signature}"}
