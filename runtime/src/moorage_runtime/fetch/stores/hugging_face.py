"""The Hugging Face Hub: a repository at one commit, or a file or folder of it.

A branch or tag is resolved once; all files belong to one commit. The Hub reports the SHA-256 of
each large file and git's SHA-1 of each small one, so every byte is verified.

Source: Hugging Face documentation, "Hub API Endpoints".
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urljoin

from moorage_runtime.fetch.decide.below import below
from moorage_runtime.fetch.decide.credentials import Credentials
from moorage_runtime.fetch.decide.entries import Algorithm, Digest, Entry, Listing, checked
from moorage_runtime.fetch.decide.failures import BadSource, Corrupt, Denied, FetchError, NotFound
from moorage_runtime.fetch.decide.json_answers import (
    mapping,
    number,
    parse_list,
    parse_object,
    text,
)
from moorage_runtime.fetch.decide.redirects import origin_of
from moorage_runtime.fetch.decide.source import HubSource
from moorage_runtime.fetch.stores.store import plain_failure
from moorage_runtime.fetch.web import Answer, Web

__all__ = ["HubStore"]

ENDPOINT = "https://huggingface.co"
NEXT = re.compile(r'<([^>]+)>\s*;\s*rel="next"')
COMMIT = re.compile(r"[0-9a-f]{40,64}")


class HubStore:
    """Files of one repository.

    Args:
        source: The source.
        web: The network.
        credentials: `HF_TOKEN`, for private and gated repositories.
    """

    def __init__(self, source: HubSource, web: Web, credentials: Credentials) -> None:
        self._source = source
        self._web = web
        self._base = source.endpoint or ENDPOINT
        token = credentials.text("HF_TOKEN")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._what = f"hf://{source.repository}@{source.revision}"

    def listing(self) -> Listing:
        """The files of the commit that the revision refers to now; see `Store`."""
        api = f"{self._base}/api/models/{self._source.repository}"
        body, _ = self._asked(f"{api}/revision/{quote(self._source.revision, safe='')}")
        commit = text(parse_object(body, self._what), "sha")
        if not COMMIT.fullmatch(commit):
            raise Corrupt(f"{self._what}: the server's response contains no commit")
        files = {text(item, "path"): item for item in self._tree(f"{api}/tree/{commit}")}
        what = f"{self._what}/{self._source.path}" if self._source.path else self._what
        entries = checked(
            (
                self._entry(files[name], name, path, commit)
                for name, path in below(files, self._source.path)
            ),
            what,
        )
        return Listing(entries, commit)

    def headers(self, entry: Entry, wanted: Mapping[str, str]) -> dict[str, str]:
        """The token; see `Store`."""
        del entry
        return {**wanted, **self._headers}

    def promised(self, entry: Entry, headers: Mapping[str, str]) -> Digest | None:
        """The digest from the listing; see `Store`."""
        del headers
        return entry.digest

    def failure(self, answer: Answer, what: str) -> FetchError:
        """The failure for the Hub's own error code; see `Store`."""
        del what
        code = answer.headers.get("X-Error-Code", "")
        if code == "GatedRepo":
            return Denied(
                f"{self._what} is gated: accept its conditions on its page, with the account of "
                "HF_TOKEN in the Secret"
            )
        if code == "RevisionNotFound":
            return NotFound(f"{self._what} has no such revision: check the part after '@'")
        if code == "RepoNotFound" or answer.status == 401:
            advice = (
                "check the name, and that HF_TOKEN in the Secret has read access"
                if self._headers
                else "check the name; a private repository requires HF_TOKEN in the Secret"
            )
            return NotFound(f"{self._what} does not exist or is private; {advice}")
        return plain_failure(answer, self._what, told=bool(self._headers))

    def _tree(self, url: str) -> Iterator[Mapping[str, Any]]:
        page = f"{url}?recursive=true"
        while True:
            body, headers = self._asked(page)
            found = parse_list(body, self._what)
            yield from (item for item in found if text(item, "type") == "file")
            more = NEXT.search(headers.get("Link", ""))
            if not more:
                return
            page = urljoin(page, more[1])
            if origin_of(page) != origin_of(url):
                raise BadSource(f"{self._what}: the listing continues on another host")

    def _asked(self, url: str) -> tuple[bytes, Mapping[str, str]]:
        with self._web.open(url, self._headers) as answer:
            if answer.status != 200:
                raise self.failure(answer, self._what)
            return answer.body(), answer.headers

    def _entry(self, item: Mapping[str, Any], name: str, path: str, commit: str) -> Entry:
        large = mapping(item.get("lfs"))
        digest = (
            Digest(Algorithm.SHA256, text(large, "oid"))
            if large
            else Digest(Algorithm.GIT_SHA1, text(item, "oid"))
        )
        size = number(large, "size") if large else number(item, "size")
        url = f"{self._base}/{self._source.repository}/resolve/{commit}/{quote(name)}"
        return Entry(path, url, size, digest.value, "", digest)
