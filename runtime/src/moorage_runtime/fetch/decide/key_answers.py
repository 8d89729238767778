"""Parses the temporary keys of a pod's role in the responses of STS and of a node's agent. Pure.

Source: AWS Security Token Service API Reference, "AssumeRoleWithWebIdentity", and the AWS SDKs
Reference Guide, "Container credential provider".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from moorage_runtime.fetch.decide.failures import Denied
from moorage_runtime.fetch.decide.json_answers import parse_object, text
from moorage_runtime.fetch.decide.sigv4 import AccessKey
from moorage_runtime.fetch.decide.xml_text import element_of

__all__ = ["TemporaryKey", "parse_agent_answer", "parse_sts_answer"]

FIELDS = ("AccessKeyId", "SecretAccessKey", "Expiration")


@dataclass(frozen=True, slots=True)
class TemporaryKey:
    """A key pair with an expiry, which has a time zone."""

    key: AccessKey
    expires: datetime


def parse_sts_answer(body: bytes, what: str) -> TemporaryKey:
    """The keys in a response to AssumeRoleWithWebIdentity.

    Raises:
        Denied: It contains none.
    """
    try:
        found = {each.tag.rpartition("}")[2]: each.text or "" for each in element_of(body).iter()}
        return _key(found, "SessionToken")
    except (KeyError, ValueError) as error:
        raise Denied(f"{what}: the response of STS contains no keys") from error


def parse_agent_answer(body: bytes, what: str) -> TemporaryKey:
    """The keys in a response of a node's agent.

    Raises:
        Corrupt: The response is not a JSON object.
        Denied: It contains no keys.
    """
    found = parse_object(body, what)
    try:
        return _key({name: text(found, name) for name in (*FIELDS, "Token")}, "Token")
    except ValueError as error:
        raise Denied(f"{what}: the response of the agent contains no keys") from error


def _key(found: Mapping[str, str], token: str) -> TemporaryKey:
    key = AccessKey(found["AccessKeyId"], found["SecretAccessKey"], found[token])
    expires = datetime.fromisoformat(found["Expiration"])
    if not key.id or not key.secret or expires.tzinfo is None:
        raise ValueError
    return TemporaryKey(key, expires)
