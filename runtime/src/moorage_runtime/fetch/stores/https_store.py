"""One file of a web server.

A request for one byte reveals size and version before the download, even if HEAD is not signed
for.
The response also reveals a server that ignores ranges.
"""

import re
from collections.abc import Mapping

from moorage_runtime.fetch.decide.amounts import parse_size
from moorage_runtime.fetch.decide.credentials import Credentials
from moorage_runtime.fetch.decide.entries import Digest, Entry, Listing, checked, declared
from moorage_runtime.fetch.decide.failures import FetchError
from moorage_runtime.fetch.decide.redirects import host_of
from moorage_runtime.fetch.decide.source import HttpsSource
from moorage_runtime.fetch.stores.store import plain_failure
from moorage_runtime.fetch.web import Answer, Web

__all__ = ["HttpsStore"]

TOTAL = re.compile(r"bytes 0-0/([0-9]+)")


class HttpsStore:
    """The file at one URL.

    Args:
        source: The source.
        web: The network.
        credentials: `token`, or `username` and `password`; sent only to the URL's own origin.
    """

    def __init__(self, source: HttpsSource, web: Web, credentials: Credentials) -> None:
        self._source = source
        self._web = web
        authorization = credentials.basic()
        self._headers = {"Authorization": authorization} if authorization else {}

    def listing(self) -> Listing:
        """The file; see `Store`."""
        what = f"{host_of(self._source.url)}/.../{self._source.file}"
        with self._web.open(self._source.url, {**self._headers, "Range": "bytes=0-0"}) as answer:
            # 416: the file is empty
            if answer.status not in {200, 206, 416}:
                raise self.failure(answer, what)
            headers = answer.headers
            size = headers.get("Content-Length", "") if answer.status == 200 else ""
            if answer.status == 206:
                found = TOTAL.fullmatch(headers.get("Content-Range", ""))
                size = found[1] if found else ""
            etag = headers.get("ETag", "")
        # Source: RFC 9110, 8.8.1: a weak validator does not identify the content
        strong = "" if etag.startswith("W/") else etag
        path, url = self._source.file, self._source.url
        entry = Entry(path, url, parse_size(size), strong, strong)
        return Listing(declared(checked([entry], what), self._source.sha256, what))

    def headers(self, entry: Entry, wanted: Mapping[str, str]) -> dict[str, str]:
        """The credential; see `Store`."""
        del entry
        return {**wanted, **self._headers}

    def promised(self, entry: Entry, headers: Mapping[str, str]) -> Digest | None:
        """The digest from the URI; see `Store`."""
        del headers
        return entry.digest

    def failure(self, answer: Answer, what: str) -> FetchError:
        """The failure for the status; see `Store`."""
        return plain_failure(answer, what, told=bool(self._headers))
