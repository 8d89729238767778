"""The Secret of a model: which credential results from its keys."""

import base64
import json

import pytest

from moorage_runtime.fetch.decide.credentials import Credentials
from moorage_runtime.fetch.decide.failures import BadSource
from moorage_runtime.fetch.decide.sigv4 import AccessKey

NOT_DOCKER = (
    "the key .dockerconfigjson of the Secret is not a Docker configuration: create it with "
    "`kubectl create secret docker-registry`"
)


def secret(**values: str) -> Credentials:
    return Credentials({f"MOORAGE_CREDENTIAL_{name}": value for name, value in values.items()})


def docker(text: object) -> Credentials:
    whole = text if isinstance(text, str) else json.dumps(text)
    return Credentials({"MOORAGE_CREDENTIAL_.dockerconfigjson": whole})


def basic(pair: str) -> str:
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def test_only_variables_with_the_prefix_belong_to_the_secret():
    found = Credentials({"HF_TOKEN": "a", "X_MOORAGE_CREDENTIAL_HF_TOKEN": "b"})

    assert not found.given
    assert found.text("HF_TOKEN") == ""


def test_space_around_a_value_is_removed_and_an_empty_value_is_absent():
    assert secret(HF_TOKEN=" a\n").text("HF_TOKEN") == "a"
    assert secret(HF_TOKEN="a").given
    assert not secret(HF_TOKEN=" \n").given


def test_an_access_key_has_two_parts_and_perhaps_a_token():
    pair = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key"}

    assert secret().access_key() is None
    assert secret(AWS_SESSION_TOKEN="token").access_key() is None
    assert secret(**pair).access_key() == AccessKey("id", "key")
    assert secret(**pair, AWS_SESSION_TOKEN="token").access_key() == AccessKey(
        "id", "key", "token"
    )


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
        ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"),
    ],
)
def test_half_an_access_key_is_refused(given, missing):
    with pytest.raises(BadSource) as caught:
        secret(**{given: "x"}).access_key()

    assert str(caught.value) == f"the Secret has no key {missing}: set both keys of the pair"


def test_a_token_or_a_password_authorizes():
    assert secret().basic() == ""
    assert secret(token="t").basic() == "Bearer t"
    assert secret(username="user", password="pä:ss").basic() == basic("user:pä:ss")


@pytest.mark.parametrize("other", ["username", "password"])
def test_a_token_beside_a_password_is_refused(other):
    with pytest.raises(BadSource) as caught:
        secret(token="t", **{other: "x"}).basic()

    assert str(caught.value) == (
        "the Secret has both token and username or password: remove one of them"
    )


@pytest.mark.parametrize("only", ["username", "password"])
def test_half_a_password_is_refused(only):
    with pytest.raises(BadSource) as caught:
        secret(**{only: "x"}).basic()

    assert str(caught.value) == "the Secret must have both username and password, or only token"


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("reg.example:5000", "reg.example:5000"),
        ("https://reg.example:5000", "reg.example:5000"),
        ("reg.example:5000/", "reg.example:5000"),
        ("https://reg.example:5000/", "reg.example:5000"),
        ("https://reg.example/v2/", "reg.example"),
        ("http://reg.example/v1", "reg.example"),
        ("https://index.docker.io/v1/", "docker.io"),
        ("index.docker.io", "docker.io"),
        ("https://index.docker.io", "registry-1.docker.io"),
        ("docker.io", "registry-1.docker.io"),
    ],
)
def test_a_registry_gets_its_own_entry_of_a_docker_configuration(name, host):
    entry = {"auth": base64.b64encode(b"user:password").decode()}
    auths = {"other.example": {"auth": "eA=="}, "https://other.example": {}, name: entry}

    assert docker({"auths": auths}).registry(host, "iris") == basic("user:password")


def test_a_registry_without_an_entry_gets_no_credential():
    entries = {"reg.example": {}, "b.example": "text", "c.example": {"auth": "x"}}
    # the entry of one repository is not that of its registry
    entries |= {"d.example/team": {"auth": "x"}, "https://d.example/v3/": {"auth": "x"}}
    entries |= {"d.example/X/": {"auth": "x"}}
    entries |= {"*.e.example": {"auth": "x"}, "f.*:5000": {"auth": "x"}}
    configuration = docker({"auths": entries})

    hosts = ("reg.example", "b.example", "d.example", "docker.io", "e.example", "a.b.e.example")
    for host in (*hosts, "f.example", "f.example:5001"):
        assert configuration.registry(host, "teams/iris") == ""


@pytest.mark.parametrize(
    ("host", "repository", "user"),
    [
        ("reg.example", "team/models/iris", "models"),
        ("reg.example", "team/models", "models"),
        ("reg.example", "team/other", "team"),
        ("reg.example", "other/iris", "all"),
        ("a.registry.example", "iris", "any"),
        ("own.registry.example", "iris", "own"),
        ("b.registry.example:5000", "team/iris", "port"),
        ("[::1]:5000", "iris", "local"),
    ],
)
def test_an_entry_may_be_for_a_folder_of_repositories_or_a_pattern_of_hosts(
    host, repository, user
):
    """As for the kubelet, to which such a Secret gives the right to pull an image."""
    places = {
        "reg.example/team": "team",
        "reg.example": "all",
        "https://reg.example/v2/team/models/": "models",
        "*.registry.example": "any",
        "own.registry.example": "own",
        "*.registry.example:5000/team": "port",
        "[::1]:5000": "local",
    }
    auths = {place: {"username": name, "password": "p"} for place, name in places.items()}

    assert docker({"auths": auths}).registry(host, repository) == basic(f"{user}:p")


def test_a_docker_configuration_may_have_a_user_and_a_password():
    entries = {"a": {"username": "u", "password": "p"}, "b": {"username": "u"}, "c": {"email": ""}}
    found = docker({"auths": entries})

    assert [found.registry(host, "iris") for host in "abc"] == [
        basic("u:p"),
        basic("u:"),
        basic(":"),
    ]


def test_without_a_docker_configuration_the_plain_credential_authorizes():
    assert secret(username="u", password="p").registry("reg.example", "iris") == basic("u:p")


@pytest.mark.parametrize("text", ["{", "[]", "5", "{}", '{"auths": []}', '{"auths": "text"}'])
def test_another_text_than_a_docker_configuration_is_refused(text):
    with pytest.raises(BadSource) as caught:
        docker(text).registry("reg.example", "iris")

    assert str(caught.value) == NOT_DOCKER


@pytest.mark.parametrize("auth", ["x", "dTpw!", "dXNlcjr/", "dTpwé", 5])
def test_an_invalid_auth_is_refused(auth):
    with pytest.raises(BadSource) as caught:
        docker({"auths": {"reg.example": {"auth": auth}}}).registry("reg.example", "iris")

    assert str(caught.value) == (
        "auth in .dockerconfigjson is invalid: must be base64 of user:password"
    )
