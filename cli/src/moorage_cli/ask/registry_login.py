"""The user's login to an OCI registry, as Docker and Podman keep it.

files of `docker login` and `podman login`, credential helpers --> Login --> registry

Source: Docker, "docker login", "Credential stores"; containers-auth.json(5).
"""

import base64
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moorage_cli.printing.failures import Failure, reason_of

__all__ = ["Login", "login_of"]

# With this user, a credential helper returns an identity token, not a password.
TOKEN_USER = "<token>"  # noqa: S105 - a name
HELPER_SECONDS = 60
# The names for Docker Hub in Docker's own tools.
DOCKER_HUB = ("https://index.docker.io/v1/", "docker.io", "index.docker.io")
# What Docker ignores in the address of a registry: the scheme, and the version of the API.
AROUND = re.compile(r"^https?://|/(v[12]/?)?$")


@dataclass(frozen=True, slots=True)
class Login:
    """User and password, or an identity token, which a registry's token service exchanges."""

    user: str = ""
    password: str = ""
    identity_token: str = ""

    @property
    def basic(self) -> str:
        """The value of an Authorization header, or ""."""
        if not self.user:
            return ""
        return f"Basic {base64.b64encode(f'{self.user}:{self.password}'.encode()).decode()}"


def login_of(registry: str, repository: str, environment: Mapping[str, str]) -> Login | None:
    """The first login that a file has for a registry; None for an anonymous user.

    Raises:
        Failure: A file cannot be read or is not a configuration of Docker or Podman.
    """
    names = DOCKER_HUB if registry == "docker.io" else (registry,)
    for path in _files(environment):
        document = _read(path)
        helpers = _mapping(document.get("credHelpers"))
        for name in names:
            helper = helpers.get(name) or document.get("credsStore")
            found = _asked(str(helper), name) if helper else None
            if found := found or _kept(path, _mapping(document.get("auths")), name, repository):
                return found
    return None


def _files(environment: Mapping[str, str]) -> Iterator[Path]:
    home = Path(environment.get("HOME", "/nonexistent"))
    if file := environment.get("REGISTRY_AUTH_FILE"):
        yield Path(file)
    if folder := environment.get("XDG_RUNTIME_DIR"):
        yield Path(folder) / "containers" / "auth.json"
    yield home / ".config" / "containers" / "auth.json"
    yield Path(environment.get("DOCKER_CONFIG") or home / ".docker") / "config.json"


def _read(path: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(path.read_bytes() or b"{}")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Failure(f"{path} cannot be read: {reason_of(error)}") from error
    except ValueError as error:
        raise Failure(f"{path} is invalid: must be a JSON object: {reason_of(error)}") from error
    if not isinstance(document, dict):
        raise Failure(f"{path} is invalid: must be a JSON object")
    return document


def _kept(path: Path, auths: Mapping[str, Any], name: str, repository: str) -> Login | None:
    """The login that a file has itself, for the longest name that contains the repository."""
    known = {AROUND.sub("", key): entry for key, entry in auths.items()}
    place = f"{AROUND.sub('', name)}/{repository}"
    while place:
        entry = _mapping(known.get(place))
        if token := entry.get("identitytoken"):
            return Login(identity_token=str(token))
        if auth := entry.get("auth"):
            try:
                user, _, password = (
                    base64.b64decode(str(auth), validate=True).decode().partition(":")
                )
            except ValueError as error:
                raise Failure(f"{path}: the login for {name} is invalid: log in again") from error
            return Login(user, password)
        place = place.rpartition("/")[0]
    return None


def _asked(helper: str, name: str) -> Login | None:
    """The login that a credential helper has; None if it has none or is not installed."""
    try:
        done = subprocess.run(  # noqa: S603 - the program that the user's configuration names
            [f"docker-credential-{helper}", "get"],
            input=name, capture_output=True, text=True, check=True, timeout=HELPER_SECONDS,
        )  # fmt: skip
        found = _mapping(json.loads(done.stdout))
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    user, secret = str(found.get("Username", "")), str(found.get("Secret", ""))
    return Login(identity_token=secret) if user == TOKEN_USER else Login(user, secret)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
