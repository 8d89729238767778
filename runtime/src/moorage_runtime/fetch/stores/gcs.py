"""Google Cloud Storage with its JSON API: one object, or all below a path.

An object is requested by its generation, so that a model never mixes two uploads.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from moorage_runtime.fetch.decide.below import below
from moorage_runtime.fetch.decide.entries import (
    Algorithm,
    Digest,
    Entry,
    Listing,
    checked,
    declared,
)
from moorage_runtime.fetch.decide.failures import FetchError
from moorage_runtime.fetch.decide.json_answers import items, number, parse_object, text
from moorage_runtime.fetch.decide.source import GcsSource
from moorage_runtime.fetch.stores.google_token import GoogleToken
from moorage_runtime.fetch.stores.store import plain_failure
from moorage_runtime.fetch.web import Answer, Web

__all__ = ["GcsStore"]

ENDPOINT = "https://storage.googleapis.com"
FIELDS = "items(name,size,md5Hash,generation,contentEncoding),nextPageToken"


class GcsStore:
    """Objects of one bucket.

    Args:
        source: The source.
        web: The network.
        token: The token for requests.
    """

    def __init__(self, source: GcsSource, web: Web, token: GoogleToken) -> None:
        self._source = source
        self._web = web
        self._token = token
        self._objects = f"{source.endpoint or ENDPOINT}/storage/v1/b/{source.bucket}/o"

    def listing(self) -> Listing:
        """The object with this name, or all below the path; see `Store`."""
        what = f"gs://{self._source.bucket}/{self._source.path}"
        found = {
            name: item
            for item in self._all(self._source.path.rstrip("/"), what)
            if not (name := text(item, "name")).endswith("/")
        }
        entries = checked(
            (self._entry(found[name], path) for name, path in below(found, self._source.path)),
            what,
        )
        return Listing(declared(entries, self._source.sha256, what))

    def headers(self, entry: Entry, wanted: Mapping[str, str]) -> dict[str, str]:
        """The token; see `Store`."""
        del entry
        # otherwise a compressed object is sent decompressed, with another size
        return {**wanted, **self._token.headers(), "Accept-Encoding": "gzip"}

    def promised(self, entry: Entry, headers: Mapping[str, str]) -> Digest | None:
        """The MD5 from the listing; a composite object has none."""
        del headers
        return entry.digest

    def failure(self, answer: Answer, what: str) -> FetchError:
        """The failure for the status; see `Store`."""
        return plain_failure(answer, what, told=self._token.given)

    def _all(self, prefix: str, what: str) -> Iterator[Mapping[str, Any]]:
        token = ""
        while True:
            query = {"prefix": prefix, "fields": FIELDS, "maxResults": "1000"}
            more = {"pageToken": token} if token else {}
            url = f"{self._objects}?{urlencode({**query, **more})}"
            with self._web.open(url, self._token.headers()) as answer:
                if answer.status != 200:
                    raise self.failure(answer, what)
                page = parse_object(answer.body(), what)
            yield from items(page, "items")
            token = text(page, "nextPageToken")
            if not token:
                return

    def _entry(self, item: Mapping[str, Any], path: str) -> Entry:
        generation = text(item, "generation")
        name = quote(text(item, "name"), safe="")
        url = f"{self._objects}/{name}?{urlencode({'alt': 'media', 'generation': generation})}"
        try:
            md5 = base64.b64decode(text(item, "md5Hash"), validate=True).hex()
        except binascii.Error:
            md5 = ""
        digest = Digest(Algorithm.MD5, md5) if md5 else None
        # Source: Google's documentation, "Transcoding of gzip-compressed files"
        is_gzip = text(item, "contentEncoding").lower() == "gzip"
        size = number(item, "size")
        return Entry(path, url, size, generation, digest=digest, gzip=is_gzip)
