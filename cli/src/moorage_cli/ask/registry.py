"""Pushes the files of a model to an OCI registry.

Artifact, files of this machine --> blobs, manifest --> registry

Source: OCI Distribution Specification, "Pushing blobs" and "Pushing manifests"; Distribution,
"Token Authentication Specification".
"""

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from moorage_cli.ask.changing_file import read_unchanged
from moorage_cli.ask.registry_login import Login, login_of
from moorage_cli.manifests.deploying import Content
from moorage_cli.manifests.stores import MANIFEST_TYPE, NO_CONFIG, Artifact
from moorage_cli.printing.failures import Failure, reason_of

__all__ = ["push"]

# Registry clients use plain HTTP for the local machine.
LOOPBACK = {"localhost", "127.0.0.1"}
DOCKER_HUB = {"docker.io": "registry-1.docker.io"}
TIMEOUT = httpx.Timeout(60, read=600)
DELAYS = (1.0, 4.0)
"""Seconds before another attempt, after a broken connection, a 429 or a 5xx."""

CHALLENGE = re.compile(r'([a-z]+)="([^"]*)"', re.IGNORECASE)
ANSWER_LIMIT = 400


def push(
    artifact: Artifact,
    content: Content,
    paths: dict[str, Path],
    progress: Callable[[int], None],
) -> bool:
    """Push the files; False if the registry has them already.

    Args:
        artifact: Where to push, and the manifest.
        content: The files, with their sizes and digests.
        paths: Where they are on this machine.
        progress: Receives the number of bytes sent so far.

    Raises:
        Failure: The registry refuses or does not answer, or a file has changed.
    """
    login = login_of(artifact.registry, artifact.repository, os.environ)
    with httpx.Client(timeout=TIMEOUT) as client:
        registry = _Registry(artifact, login, client)
        if registry.has(f"manifests/{artifact.tag}", artifact.uri.rpartition("@")[2]):
            return False
        registry.push_blob(
            hashlib.sha256(NO_CONFIG).hexdigest(), len(NO_CONFIG), lambda: NO_CONFIG
        )
        sent = 0
        for path, (size, digest) in content.files.items():
            file = partial(
                read_unchanged, paths[path], size, digest, lambda n, base=sent: progress(base + n)
            )
            registry.push_blob(digest, size, file)
            sent += size
            progress(sent)
        registry.put_manifest(artifact.tag, artifact.manifest)
    return True


Body = Callable[[], bytes | Iterator[bytes]]
"""Makes the body of a request; each attempt needs it from its beginning."""


class _Registry:
    """One repository."""

    def __init__(self, artifact: Artifact, login: Login | None, client: httpx.Client) -> None:
        host = DOCKER_HUB.get(artifact.registry, artifact.registry)
        scheme = "http" if host.partition(":")[0] in LOOPBACK else "https"
        self._name = artifact.registry
        self._api = httpx.URL(f"{scheme}://{host}/v2/{artifact.repository}/")
        self._scope = f"repository:{artifact.repository}:pull,push"
        self._login = login
        self._client = client
        self._authorization = ""

    def has(self, path: str, digest: str = "") -> bool:
        """Whether it exists, with this digest if one is given."""
        answer = self._ask("HEAD", self._api.join(path), headers={"Accept": MANIFEST_TYPE})
        known = answer.headers.get("Docker-Content-Digest", "")
        return answer.status_code == 200 and digest in {"", known}

    def push_blob(self, digest: str, size: int, body: Body) -> None:
        """Push a blob, unless it exists."""
        if not self.has(f"blobs/sha256:{digest}"):
            self._try_again(lambda: self._upload(digest, size, body))

    def put_manifest(self, tag: str, manifest: bytes) -> None:
        """Name the pushed blobs with a tag."""
        url, headers = self._api.join(f"manifests/{tag}"), {"Content-Type": MANIFEST_TYPE}
        self._try_again(
            lambda: self._expect(self._ask("PUT", url, lambda: manifest, headers), 201)
        )

    def _upload(self, digest: str, size: int, body: Body) -> None:
        # Registries differ in which ways they know; each knows Docker's: POST, PATCH, PUT.
        begun = self._expect(self._ask("POST", self._api.join("blobs/uploads/")), 202)
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        if size:
            begun = self._expect(self._ask("PATCH", _location(begun), body, headers), 202)
        url = _location(begun).copy_add_param("digest", f"sha256:{digest}")
        self._expect(self._ask("PUT", url), 201)

    def _try_again(self, attempt: Callable[[], object]) -> None:
        for delay in DELAYS:
            try:
                attempt()
            except _Passing:
                time.sleep(delay)
            else:
                return
        attempt()

    def _expect(self, answer: httpx.Response, status: int) -> httpx.Response:
        if answer.status_code == status:
            return answer
        code = answer.status_code
        text = f"registry {self._name} answers {code}: {_words(answer)}"
        if code in {401, 403}:
            text += f": run docker login {self._name} as a user who may push"
        is_passing = code == 429 or code >= 500
        raise (_Passing if is_passing else Failure)(text)

    def _ask(
        self,
        method: str,
        url: httpx.URL,
        body: Body | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        """An answer; a request that needs a new token is sent again with one."""
        answer = self._send(method, url, body, headers)
        if answer.status_code == 401 and self._authorize(answer):
            answer = self._send(method, url, body, headers)
        return answer

    def _send(
        self,
        method: str,
        url: httpx.URL,
        body: Body | None,
        headers: dict[str, str] | None,
    ) -> httpx.Response:
        sent = dict(headers or {})
        is_own = (url.scheme, url.netloc) == (self._api.scheme, self._api.netloc)
        if self._authorization and is_own:  # uploads can continue at another address
            sent["Authorization"] = self._authorization
        try:
            return self._client.request(
                method, url, content=body() if body else None, headers=sent
            )
        except httpx.HTTPError as error:
            raise _Passing(f"registry {self._name}: {reason_of(error)}") from error

    def _authorize(self, answer: httpx.Response) -> bool:
        """Whether the registry's challenge could be answered."""
        challenge = answer.headers.get("WWW-Authenticate", "")
        scheme = challenge.partition(" ")[0].lower()
        if scheme == "basic" and self._login is not None:
            self._authorization = self._login.basic
            return bool(self._authorization)
        fields = {name.lower(): value for name, value in CHALLENGE.findall(challenge)}
        if scheme != "bearer" or "realm" not in fields:
            return False
        query = {"service": fields.get("service", ""), "scope": self._scope}
        try:
            found = self._token(fields["realm"], query)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _Passing(
                f"registry {self._name}: its token service: {reason_of(error)}"
            ) from error
        if found.status_code != 200:
            words = f"{found.status_code}: {_words(found)}"
            raise Failure(
                f"registry {self._name}: its token service answers {words}: run docker login "
                f"{self._name}"
            )
        document = _document(found)
        token = document.get("token") or document.get("access_token")
        self._authorization = f"Bearer {token}"
        return bool(token)

    def _token(self, realm: str, query: dict[str, str]) -> httpx.Response:
        login = self._login or Login()
        if login.identity_token:
            form = {
                "grant_type": "refresh_token", "refresh_token": login.identity_token,
                "client_id": "moorage",
            }  # fmt: skip
            return self._client.post(realm, data=form | query)
        headers = {"Authorization": login.basic} if login.basic else {}
        return self._client.get(realm, params=query, headers=headers)


class _Passing(Failure):
    """A failure after which another attempt may succeed."""


def _location(answer: httpx.Response) -> httpx.URL:
    """Where an upload continues; some registries give only a path."""
    place = answer.headers.get("Location", "")
    if not place:
        raise Failure(f"registry {answer.url.host}: its answer to an upload has no Location")
    return answer.url.join(place)


def _document(answer: httpx.Response) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _words(answer: httpx.Response) -> str:
    """What a registry says about an error, or the name of the status."""
    errors = _document(answer).get("errors")
    listed = errors if isinstance(errors, list) else []
    words = [
        str(each.get("message") or each.get("code")) for each in listed if isinstance(each, dict)
    ]
    return "; ".join(words)[:ANSWER_LIMIT] or answer.reason_phrase
