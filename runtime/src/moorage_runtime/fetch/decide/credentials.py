"""The Secret of a model, which the operator passes as variables with a prefix. Pure.

Each key of the Secret is a variable MOORAGE_CREDENTIAL_KEY, so a Secret cannot set a variable that
affects the process itself, such as LD_PRELOAD. The keys have the names that the stores' own tools
use. Variables that a cluster sets for a service account (such as AWS_ROLE_ARN) are read without
the prefix, with lower precedence.
"""

import base64
import json
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, cast

from moorage_runtime.fetch.decide.failures import BadSource
from moorage_runtime.fetch.decide.sigv4 import AccessKey

__all__ = ["PREFIX", "Credentials"]

PREFIX = "MOORAGE_CREDENTIAL_"
# The names for Docker Hub in Docker's own tools.
DOCKER_HUB = ("index.docker.io", "docker.io")
# What the kubelet ignores in the address of a registry: the scheme, and the version of the API.
SCHEME, VERSION = re.compile(r"^https?://"), re.compile(r"^v[12](/|$)")


class Credentials:
    """The keys of a Secret; empty ones count as absent.

    Args:
        environment: The process's variables.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        # a Secret that was created from a file often ends with a newline
        values = {
            name.removeprefix(PREFIX): value.strip()
            for name, value in environment.items()
            if name.startswith(PREFIX)
        }
        self._values = {name: value for name, value in values.items() if value}

    @property
    def given(self) -> bool:
        """Whether the model has a Secret that is not empty."""
        return bool(self._values)

    def text(self, key: str) -> str:
        """The value of a key, or ""."""
        return self._values.get(key, "")

    def access_key(self) -> AccessKey | None:
        """A key pair for S3, or None.

        Raises:
            BadSource: Only one key of the pair is set.
        """
        id_, secret = self.text("AWS_ACCESS_KEY_ID"), self.text("AWS_SECRET_ACCESS_KEY")
        if bool(id_) != bool(secret):
            missing = "AWS_SECRET_ACCESS_KEY" if id_ else "AWS_ACCESS_KEY_ID"
            raise BadSource(f"the Secret has no key {missing}: set both keys of the pair")
        return AccessKey(id_, secret, self.text("AWS_SESSION_TOKEN")) if id_ else None

    def basic(self) -> str:
        """An Authorization header for `username` and `password`, or for `token`; otherwise empty.

        Raises:
            BadSource: A user without a password, or both kinds.
        """
        user, password, token = self.text("username"), self.text("password"), self.text("token")
        if token and (user or password):
            raise BadSource(
                "the Secret has both token and username or password: remove one of them"
            )
        if bool(user) != bool(password):
            raise BadSource("the Secret must have both username and password, or only token")
        if token:
            return f"Bearer {token}"
        return _basic(f"{user}:{password}") if user else ""

    def registry(self, host: str, repository: str) -> str:
        """An Authorization header for a repository of a registry, or "".

        Of several entries that match, the most specific one counts.

        Raises:
            BadSource: `.dockerconfigjson` is not a result of `kubectl create secret
                docker-registry`.
        """
        text = self.text(".dockerconfigjson")
        if not text:
            return self.basic()
        auths = _auths(text)
        names = DOCKER_HUB if host in {"docker.io", "registry-1.docker.io"} else (host,)
        # a name sorts after a pattern of it, and a folder after those above it
        places = sorted((*_place(known), known) for known in auths)
        for name in names:
            for known, path, key in reversed(places):
                entry = auths[key]
                if entry and _is_host(known, name) and f"{repository}/".startswith(path):
                    return _entry(entry)
        return ""


def _auths(text: str) -> Mapping[str, Mapping[str, Any]]:
    wrong = "the key .dockerconfigjson of the Secret is not a Docker configuration: "
    wrong += "create it with `kubectl create secret docker-registry`"
    try:
        auths = json.loads(text)["auths"]
    except (ValueError, KeyError, TypeError) as error:
        raise BadSource(wrong) from error
    if not isinstance(auths, dict):
        raise BadSource(wrong)
    found = cast("dict[str, Any]", auths)
    return {host: entry for host, entry in found.items() if isinstance(entry, dict)}


def _place(known: str) -> tuple[str, str]:
    """Host of an entry, and the path of its repositories, which is empty or ends with '/'.

    Source: Kubernetes documentation, "Images", "Interpretation of config.json".
    """
    host, _, path = SCHEME.sub("", known).partition("/")
    folder = VERSION.sub("", path).strip("/")
    return host, f"{folder}/" if folder else ""


def _is_host(known: str, host: str) -> bool:
    """Whether an entry's host is this one, or a pattern of it: '*' is within one label."""
    if known == host:
        return True
    (pattern, _, port), (name, _, own_port) = known.partition(":"), host.partition(":")
    patterns, names = pattern.split("."), name.split(".")
    return (
        port == own_port
        and len(patterns) == len(names)
        and all(fnmatchcase(each, label) for label, each in zip(patterns, names, strict=True))
    )


def _entry(entry: Mapping[str, Any]) -> str:
    if auth := entry.get("auth"):
        try:
            return _basic(base64.b64decode(str(auth), validate=True).decode())
        except ValueError as error:
            raise BadSource(
                "auth in .dockerconfigjson is invalid: must be base64 of user:password"
            ) from error
    return _basic(f"{entry.get('username', '')}:{entry.get('password', '')}")


def _basic(pair: str) -> str:
    return f"Basic {base64.b64encode(pair.encode()).decode()}"
