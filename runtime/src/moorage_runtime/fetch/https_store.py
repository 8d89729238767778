"""One file of a web server.

A range of one byte tells size and version before anything is downloaded, also where HEAD is not
signed for; a server that ignores ranges is told by its answer.
"""

import re
from collections.abc import Mapping

from moorage_runtime.fetch.credentials import Credentials
from moorage_runtime.fetch.entries import Digest, Entry, Listing, checked, declared
from moorage_runtime.fetch.failures import FetchError
from moorage_runtime.fetch.redirects import host_of
from moorage_runtime.fetch.source import HttpsSource
from moorage_runtime.fetch.store import plain_failure
from moorage_runtime.fetch.web import Answer, Web

__all__ = ["HttpsStore"]

TOTAL = re.compile(r"bytes 0-0/([0-9]+)")


class HttpsStore:
    """The file of one URL.

    Args:
        source: What to fetch.
        web: The network.
        credentials: `token`, or `username` and `password`; sent to the URL's own origin alone.
    """

    def __init__(self, source: HttpsSource, web: Web, credentials: Credentials) -> None:
        self._source = source
        self._web = web
        authorization = credentials.basic()
        self._headers = {"Authorization": authorization} if authorization else {}

    def listing(self) -> Listing:
        """The one file; see `Store`."""
        what = f"{host_of(self._source.url)}/.../{self._source.file}"
        with self._web.open(self._source.url, {**self._headers, "Range": "bytes=0-0"}) as answer:
            # 416: the file is empty
            if answer.status not in {200, 206, 416}:
                raise self.failure(answer, what)
            headers = answer.headers
            size = headers.get("Content-Length") if answer.status == 200 else None
            if answer.status == 206:
                found = TOTAL.fullmatch(headers.get("Content-Range", ""))
                size = found[1] if found else None
            etag = headers.get("ETag", "")
        # Source: RFC 9110, 8.8.1: a weak validator does not tell the bytes
        strong = "" if etag.startswith("W/") else etag
        path, url = self._source.file, self._source.url
        entry = Entry(path, url, int(size) if size else None, strong, strong)
        return Listing(declared(checked([entry], what), self._source.sha256, what))

    def headers(self, entry: Entry) -> dict[str, str]:
        """The credential; see `Store`."""
        del entry
        return dict(self._headers)

    def promised(self, entry: Entry, headers: Mapping[str, str]) -> Digest | None:
        """What the user declared; see `Store`."""
        del headers
        return entry.digest

    def failure(self, answer: Answer, what: str) -> FetchError:
        """What the status says; see `Store`."""
        return plain_failure(answer, what, told=bool(self._headers))
