"""Logins that Docker and Podman keep in files, and credential helpers."""

import base64
import json
import os

import pytest

from moorage_cli.ask.registry_login import Login, login_of
from moorage_cli.printing.failures import Failure


def pair(user, password="p"):
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


@pytest.fixture
def files(tmp_path):
    """Writes files below a home; returns the environment."""

    def write(documents, **variables):
        for name, document in documents.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(document if isinstance(document, str) else json.dumps(document))
        return {"HOME": str(tmp_path)} | {
            name: value.replace("~", str(tmp_path)) for name, value in variables.items()
        }

    return write


@pytest.mark.parametrize(
    ("auths", "registry", "user"),
    [
        ({"r.example": pair("me")}, "r.example", "me"),
        ({"https://r.example/v2/": pair("me")}, "r.example", "me"),
        ({"r.example:5000": pair("me")}, "r.example", None),
        ({"r.example": pair("all"), "r.example/team": pair("team")}, "r.example", "team"),
        ({"r.example/tea": pair("other")}, "r.example", None),
        ({"https://index.docker.io/v1/": pair("hub")}, "docker.io", "hub"),
        ({"docker.io": pair("hub")}, "docker.io", "hub"),
        ({"r.example": {}}, "r.example", None),
    ],
)
def test_the_longest_name_that_contains_the_repository_counts(files, auths, registry, user):
    environment = files({".docker/config.json": {"auths": auths}})

    found = login_of(registry, "team/iris", environment)

    assert (found and found.user) == user


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("own/auth.json", {"REGISTRY_AUTH_FILE": "~/own/auth.json"}),
        ("run/containers/auth.json", {"XDG_RUNTIME_DIR": "~/run"}),
        (".config/containers/auth.json", {}),
        ("docker/config.json", {"DOCKER_CONFIG": "~/docker"}),
    ],
)
def test_the_files_of_both_tools_are_read(files, name, variables):
    environment = files({name: {"auths": {"r.example": pair("me", "p:q")}}}, **variables)

    assert login_of("r.example", "iris", environment) == Login("me", "p:q")


def test_an_identity_token_is_no_password(files):
    entry = pair("00000000", "") | {"identitytoken": "long-lived"}
    environment = files({".docker/config.json": {"auths": {"r.example": entry}}})

    assert login_of("r.example", "iris", environment) == Login(identity_token="long-lived")


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ('{"ServerURL": "r", "Username": "me", "Secret": "s"}', Login("me", "s")),
        ('{"Username": "<token>", "Secret": "s"}', Login(identity_token="s")),
        ("credentials not found in native keychain", Login("kept", "p")),
    ],
)
def test_a_credential_helper_is_asked_for_the_registry(
    files, tmp_path, monkeypatch, answer, found
):
    helper = tmp_path / "docker-credential-keychain"
    helper.write_text(
        f"#!/bin/sh\nread name; test $1$name = getr.example || exit 1\necho '{answer}'"
    )
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    config = {"credHelpers": {"r.example": "keychain"}, "auths": {"r.example": pair("kept")}}
    environment = files({".docker/config.json": config})

    assert login_of("r.example", "iris", environment) == found
    config = {"credsStore": "missing", "auths": {"r.example": pair("kept")}}
    environment = files({".docker/config.json": config})
    assert login_of("r.example", "iris", environment) == Login("kept", "p")


@pytest.mark.parametrize("text", ["{", "[]", '{"auths": {"r.example": {"auth": "_"}}}'])
def test_a_file_that_is_damaged_is_named(files, text):
    environment = files({".docker/config.json": text})

    with pytest.raises(Failure, match=r"config\.json.* invalid"):
        login_of("r.example", "iris", environment)
