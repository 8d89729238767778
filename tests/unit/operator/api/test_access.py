"""spec.tls and spec.access: names, and a problem for each invalid one."""

import pytest

from moorage_operator.api.access import Tls, TokenAccess
from support.operator_values import model


def problems(**spec: object) -> list[str]:
    return [str(problem) for problem in model(**spec).problems]


def test_the_names_of_the_secrets_are_read() -> None:
    tls = {"secretName": "iris-tls", "serverName": "iris.example.com"}
    parsed = model(tls=tls, access={"tokenSecretName": "iris-tokens"})

    assert parsed.problems == ()
    assert parsed.tls == Tls("iris-tls", "iris.example.com")
    assert parsed.tls
    assert parsed.access == TokenAccess("iris-tokens")


def test_without_them_servers_are_plaintext_and_open() -> None:
    parsed = model()

    assert not parsed.tls
    assert parsed.access.token_secret_name == ""


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"tls": {"serverName": "iris.example.com"}},
            (
                "spec.tls.secretName: is required and must be the name of a Secret of type "
                "kubernetes.io/tls"
            ),
        ),
        (
            {"tls": {"secretName": "Iris"}},
            "spec.tls.secretName: 'Iris' is invalid: must be a valid name of a Secret",
        ),
        (
            {"tls": {"secretName": "iris", "serverName": "*.example.com"}},
            (
                "spec.tls.serverName: '*.example.com' is invalid: must be a host name of the "
                "certificate, such as iris.example.com"
            ),
        ),
        (
            {"tls": {"secretName": "iris", "serverName": f"{'a' * 64}.com"}},
            (
                f"spec.tls.serverName: '{'a' * 64}.com' is invalid: must be a host name of the "
                "certificate, such as iris.example.com"
            ),
        ),
        (
            {"tls": {"secretName": "iris", "caFile": "/a"}},
            (
                "spec.tls.caFile: this version of the operator does not know this field: "
                "remove it or upgrade the operator"
            ),
        ),
        (
            {"access": {"tokenSecretName": "Iris"}},
            "spec.access.tokenSecretName: 'Iris' is invalid: must be a valid name of a Secret",
        ),
        (
            {"access": {"tokenSecretName": 3}},
            "spec.access.tokenSecretName: 3 is invalid: must be a string",
        ),
        (
            {"access": {"token": "secret"}},
            (
                "spec.access.tokenSecretName: is required and must be the name of a Secret with "
                "one bearer token per line"
            ),
        ),
    ],
)
def test_an_invalid_field_is_reported(spec: dict[str, object], expected: str) -> None:
    assert expected in problems(**spec)


# The longest name of a host, and longer ones.
LABELS = ".".join(["a" * 49] * 5)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        (f"{LABELS}.abc", f"{LABELS}.abc"),
        (f"{LABELS}.abcd", ""),
        (f"{'a' * 63}.com", f"{'a' * 63}.com"),
        ("a_b", ""),
    ],
)
def test_only_a_valid_host_name_is_compared_with_a_certificate(name: str, kept: str) -> None:
    parsed = model(tls={"secretName": "iris", "serverName": name})

    assert parsed.tls.server_name == kept
    assert len(parsed.problems) == (not kept)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"tls": {"secretName": "a"}}),
        ({"tls": {"secretName": "a"}}, {"tls": {"secretName": "b"}}),
        ({"access": {"tokenSecretName": "a"}}, {"access": {"tokenSecretName": "b"}}),
    ],
)
def test_another_secret_is_another_revision(
    before: dict[str, object], after: dict[str, object]
) -> None:
    assert model(**before).written.hash != model(**after).written.hash
