"""Uploads the files of a model to a bucket of Google Cloud Storage.

Bucket, files of this machine --> **google_bucket** --> Google Cloud Storage

The user's own rights apply: the application default credentials with the optional package
`google-auth`, else what the `gcloud` tool is logged in with.

Source: Cloud Storage, JSON API, "Objects: insert" and "Resumable uploads".
"""

import base64
import hashlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from moorage_cli.ask.bucket_files import send_missing
from moorage_cli.manifests.deploying import Content
from moorage_cli.manifests.stores import Bucket
from moorage_cli.printing.failures import Failure, reason_of

__all__ = ["upload_to_google"]

ENDPOINT = "https://storage.googleapis.com"
SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
# A multiple of 256 KiB. Larger files are sent in parts, each of which can be sent again.
PART_BYTES = 8 << 20
TIMEOUT = httpx.Timeout(10, read=600, write=600)
DELAYS = (1.0, 4.0, 15.0)
"""Seconds before another attempt, after a broken connection, a 429 or a 5xx."""

PLAIN = "http://"
"""Of an endpoint that gets no token: anybody could read it, and emulators need none."""

TOOL_SECONDS = 60
ANSWER_LIMIT = 400
VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
NO_LOGIN = (
    f"no credentials: set {VARIABLE}, or log in with gcloud auth login or "
    "gcloud auth application-default login"
)


def upload_to_google(
    bucket: Bucket,
    content: Content,
    paths: dict[str, Path],
    progress: Callable[[int], None],
) -> bool:
    """Upload the files; False if the bucket has them already.

    Args:
        bucket: The bucket and folder.
        content: The files, with their sizes and digests.
        paths: Where they are on this machine.
        progress: Receives the number of bytes sent so far.

    Raises:
        Failure: There are no credentials, the store refuses or does not answer, or a file has
            changed.
    """
    endpoint = bucket.endpoint or ENDPOINT
    token = "" if endpoint.startswith(PLAIN) else _token(bucket)
    with httpx.Client(timeout=TIMEOUT) as client:
        objects = _Objects(bucket, endpoint, client, token)
        return send_missing(bucket.folder, content, paths, progress, objects.has, objects.put)


class _Objects:
    """The objects of one bucket."""

    def __init__(self, bucket: Bucket, endpoint: str, client: httpx.Client, token: str) -> None:
        self._uri = bucket.uri
        path = f"storage/v1/b/{quote(bucket.bucket, safe='')}/o"
        self._objects = f"{endpoint}/{path}"
        self._uploads = f"{endpoint}/upload/{path}"
        self._client = client
        # Not for the address of an upload that is under way, which the store chooses: it is
        # itself the permission.
        self._login = {"Authorization": f"Bearer {token}"} if token else {}

    def _object(self, key: str) -> str:
        return f"{self._objects}/{quote(key, safe='')}"

    def has(self, key: str, size: int) -> bool:
        """Whether an object has this size."""
        answer = self._again(lambda: self._own("GET", self._object(key), {"fields": "size"}))
        # a user who may only write gets no size: the upload shows what is wrong
        return answer.status_code == 200 and str(_document(answer).get("size")) == str(size)

    def put(self, key: str, size: int, data: Iterator[bytes]) -> None:
        """Upload an object; it exists only if all of its data arrived."""
        seen = hashlib.md5(usedforsecurity=False)
        parts = _parts(data, seen.update)
        if size <= PART_BYTES:
            body, query = b"".join(parts), {"uploadType": "media", "name": key}
            answer = self._again(lambda: self._own("POST", self._uploads, query, body))
            self._expect(answer, 200)
        else:
            answer = self._put_parts(key, size, parts)
        # Over a line that broke, a store could count the bytes that it has in another way.
        stored = _document(answer).get("md5Hash")
        if stored and stored != base64.b64encode(seen.digest()).decode():
            self._own("DELETE", self._object(key))
            raise Failure(
                f"--to: {self._uri}: {key} was damaged on its way: run the command again"
            )

    def _put_parts(self, key: str, size: int, parts: Iterator[bytes]) -> httpx.Response:
        query = {"uploadType": "resumable", "name": key}
        begun = self._expect(self._again(lambda: self._own("POST", self._uploads, query)), 200)
        session = begun.headers.get("Location", "")
        if not session:
            raise Failure(f"--to: {self._uri}: the answer to an upload has no Location")
        start, answer = 0, begun
        for part in parts:
            answer = self._put_part(session, start, part, size)
            start += len(part)
        return answer

    def _put_part(self, session: str, start: int, part: bytes, size: int) -> httpx.Response:
        """Send a part, and again what the store does not have of it."""
        end, arrived, is_known = start + len(part), start, True

        def send() -> httpx.Response:
            nonlocal arrived, is_known
            if not is_known:
                known = self._put(session, f"bytes */{size}")
                if known.status_code != 308 or _arrived(known) >= end:
                    return known
                arrived = max(start, _arrived(known))
            is_known = False
            span = f"bytes {arrived}-{end - 1}/{size}"
            return self._put(session, span, part[arrived - start :])

        while True:
            answer = self._again(send)
            if end == size and answer.status_code != 308:
                return self._expect(answer, 200)
            reached = _arrived(self._expect(answer, 308))
            if reached == end < size:
                return answer
            if not arrived < reached < end:
                raise Failure(
                    f"--to: {self._uri}: the store has {reached} bytes of a file of which {end} "
                    "were sent: run the command again"
                )
            arrived, is_known = reached, True

    def _again(self, attempt: Callable[[], httpx.Response]) -> httpx.Response:
        for delay in DELAYS:
            try:
                return attempt()
            except _Passing:
                time.sleep(delay)
        return attempt()

    def _own(
        self, method: str, url: str, query: dict[str, str] | None = None, body: bytes = b""
    ) -> httpx.Response:
        return self._send(
            self._client.build_request(
                method, url, params=query, content=body, headers=self._login
            )
        )

    def _put(self, session: str, span: str, body: bytes = b"") -> httpx.Response:
        headers = {"Content-Range": span}
        return self._send(
            self._client.build_request("PUT", session, content=body, headers=headers)
        )

    def _send(self, request: httpx.Request) -> httpx.Response:
        try:
            answer = self._client.send(request)
        except httpx.HTTPError as error:
            raise _Passing(f"--to: {self._uri}: {reason_of(error)}") from error
        if answer.status_code == 429 or answer.status_code >= 500:
            raise _Passing(self._refusal(answer))
        return answer

    def _expect(self, answer: httpx.Response, status: int) -> httpx.Response:
        if answer.status_code != status:
            raise Failure(self._refusal(answer))
        return answer

    def _refusal(self, answer: httpx.Response) -> str:
        error = _document(answer).get("error")
        said = error.get("message") if isinstance(error, dict) else ""
        words = str(said or answer.text.strip().partition("\n")[0] or answer.reason_phrase)
        return f"--to: {self._uri}: {answer.status_code}: {words[:ANSWER_LIMIT]}"


class _Passing(Failure):
    """A failure after which another attempt may succeed."""


def _parts(data: Iterator[bytes], saw: Callable[[bytes], None]) -> Iterator[bytes]:
    """The data in parts of PART_BYTES, of which the last one may be smaller.

    Args:
        data: The data.
        saw: Receives each piece of it.
    """
    part = bytearray()
    for each in data:
        saw(each)
        part += each
        while len(part) >= PART_BYTES:
            yield bytes(part[:PART_BYTES])
            del part[:PART_BYTES]
    if part:
        yield bytes(part)


def _arrived(answer: httpx.Response) -> int:
    """How many bytes of an upload the store has."""
    last = answer.headers.get("Range", "").rpartition("-")[2]
    return int(last) + 1 if last.isdecimal() else 0


def _document(answer: httpx.Response) -> Mapping[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _token(bucket: Bucket) -> str:
    """A token of the user."""
    try:
        import google.auth  # noqa: PLC0415 - optional
        from google.auth.exceptions import (  # noqa: PLC0415
            DefaultCredentialsError,
            GoogleAuthError,
        )
        from google.auth.transport.requests import Request  # noqa: PLC0415
    except ImportError as error:
        if token := _gcloud_token():
            return token
        raise Failure(
            "--to: a bucket of Google requires the package google-auth, or a login with gcloud "
            "auth login: install the package with pip install google-auth"
        ) from error

    try:
        credentials, _ = google.auth.default(scopes=[SCOPE])
        credentials.refresh(Request())
    except GoogleAuthError as error:
        is_absent = isinstance(error, DefaultCredentialsError) and VARIABLE not in os.environ
        if is_absent and (token := _gcloud_token()):
            return token
        if is_absent:
            raise Failure(f"--to: {bucket.uri}: {NO_LOGIN}") from error
        said = str(error.args[0] if error.args else error).partition("\n")[0]
        raise Failure(f"--to: {bucket.uri}: {said[:ANSWER_LIMIT]}") from error
    return str(credentials.token)


def _gcloud_token() -> str:
    """What the user's `gcloud` tool is logged in with; empty without the tool or a login."""
    command = ["gcloud", "auth", "print-access-token"]
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=TOOL_SECONDS)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode(errors="replace").strip()
