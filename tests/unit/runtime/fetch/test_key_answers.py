"""Temporary keys of a pod's role: read or refused."""

import json
import re
from datetime import UTC, datetime

import pytest

from moorage_runtime.fetch.decide.failures import Corrupt, Denied
from moorage_runtime.fetch.decide.key_answers import (
    TemporaryKey,
    parse_agent_answer,
    parse_sts_answer,
)
from moorage_runtime.fetch.decide.sigv4 import AccessKey

TIME = "2026-01-02T03:04:05Z"
EXPECTED = TemporaryKey(
    AccessKey("id", "secret", "token"), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
)
FIELDS = {
    "AccessKeyId": "id", "SecretAccessKey": "secret", "Token": "token", "Expiration": TIME,
}  # fmt: skip
# None removes the field.
INVALID = [
    {"AccessKeyId": None},
    {"AccessKeyId": ""},
    {"SecretAccessKey": None},
    {"SecretAccessKey": ""},
    {"Expiration": None},
    {"Expiration": ""},
    {"Expiration": "soon"},
    {"Expiration": "2026-01-02T03:04:05"},
]


def agent(**changes: object) -> bytes:
    fields = {**FIELDS, **changes}
    return json.dumps(
        {name: value for name, value in fields.items() if value is not None}
    ).encode()


def sts(**changes: object) -> bytes:
    fields = {**FIELDS, **changes}
    fields["SessionToken"] = fields.pop("Token")
    parts = (f"<{name}>{value}</{name}>" for name, value in fields.items() if value is not None)
    root = 'AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"'
    keys = f"<Credentials>{''.join(parts)}</Credentials>"
    return f"<{root}>{keys}</AssumeRoleWithWebIdentityResponse>".encode()


def test_keys_are_read():
    assert parse_agent_answer(agent(), "the role") == EXPECTED
    assert parse_sts_answer(sts(), "the role") == EXPECTED
    assert parse_sts_answer(re.sub(rb" xmlns=[^>]+", b"", sts()), "the role") == EXPECTED


@pytest.mark.parametrize(
    "body",
    [agent(AccessKeyId=5), agent(Expiration=5), *(agent(**x) for x in INVALID)],
)
def test_a_response_of_the_agent_without_keys_is_refused(body):
    with pytest.raises(Denied) as caught:
        parse_agent_answer(body, "the role")

    assert str(caught.value) == "the role: the response of the agent contains no keys"


@pytest.mark.parametrize("body", [b"", b"{", b"[]"])
def test_a_response_of_the_agent_that_is_not_an_object_is_refused(body):
    with pytest.raises(Corrupt, match=r"^the role: the response is not "):
        parse_agent_answer(body, "the role")


@pytest.mark.parametrize("body", [b"", b"<a/>", sts(Token=None), *(sts(**x) for x in INVALID)])
def test_a_response_of_sts_without_keys_is_refused(body):
    with pytest.raises(Denied) as caught:
        parse_sts_answer(body, "the role")

    assert str(caught.value) == "the role: the response of STS contains no keys"
