"""S3 and compatible servers: one object, or all below a path.

At Amazon, the bucket is part of the host name; at other endpoints, of the path, as in the SDKs. An
object is requested with If-Match, so that a model never mixes two uploads.
"""

import logging
from collections.abc import Iterator, Mapping
from urllib.parse import urlencode

from moorage_runtime.fetch.clock import utc_now
from moorage_runtime.fetch.decide.amounts import parse_size
from moorage_runtime.fetch.decide.entries import (
    Algorithm,
    Digest,
    Entry,
    Listing,
    checked,
    declared,
)
from moorage_runtime.fetch.decide.failures import BadSource, Denied, FetchError, NotFound
from moorage_runtime.fetch.decide.redirects import host_of
from moorage_runtime.fetch.decide.s3_answers import (
    MD5,
    Asked,
    S3Error,
    StoredObject,
    failure_of_s3,
    parse_error,
    parse_page,
    promised_digest,
)
from moorage_runtime.fetch.decide.sigv4 import canonical_query, quoted_path, sign
from moorage_runtime.fetch.decide.source import S3Source
from moorage_runtime.fetch.stores.aws_keys import KeySource
from moorage_runtime.fetch.web import Answer, Web

__all__ = ["S3Store"]

log = logging.getLogger(__name__)

# The default region of Amazon's SDKs.
DEFAULT_REGION = "us-east-1"
REGION_HEADER = "x-amz-bucket-region"
WRONG_REGION = {"PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed"}
PAGE_KEYS = "1000"


class S3Store:
    """Objects of one bucket.

    Args:
        source: The source; region and endpoint are empty by default.
        web: The network.
        keys: The source of the signing key.
    """

    def __init__(self, source: S3Source, web: Web, keys: KeySource) -> None:
        self._source = source
        self._web = web
        self._keys = keys
        self._region = source.region or DEFAULT_REGION
        self._folder = source.path if source.path.endswith("/") or not source.path else ""

    def listing(self) -> Listing:
        """The object with this key, or all below the path; see `Store`."""
        prefix = self._source.path.rstrip("/")
        what = self._what(self._source.path)
        try:
            found = list(self._below(f"{prefix}/" if prefix else ""))
            if not found and prefix and not self._folder:
                found = [each for each in self._one_page(prefix) if each.key == prefix]
                prefix = prefix.rpartition("/")[0]
        except Denied as denied:
            # The permission to read an object does not include the permission to list.
            single = None if self._folder else self._single(prefix)
            if single is None:
                raise denied from None
            found, prefix = [single], prefix.rpartition("/")[0]
        if not found:
            raise NotFound(f"{what} contains no objects: check the path")
        cut = len(prefix) + 1 if prefix else 0
        entries = checked((self._entry(each, each.key[cut:]) for each in found), what)
        return Listing(declared(entries, self._source.sha256, what))

    def headers(self, entry: Entry, wanted: Mapping[str, str]) -> dict[str, str]:
        """A fresh signature; see `Store`."""
        return self._signed("GET", entry.url, {"x-amz-checksum-mode": "ENABLED", **wanted})

    def promised(self, entry: Entry, headers: Mapping[str, str]) -> Digest | None:
        """The declared digest, otherwise the server's, otherwise the MD5; see `Store`."""
        return promised_digest(entry.digest, headers)

    def failure(self, answer: Answer, what: str) -> FetchError:
        """The failure for the response; see `Store`."""
        return self._failure(answer, parse_error(answer.error_text()), what)

    def _below(self, prefix: str) -> Iterator[StoredObject]:
        query = {"list-type": "2", "max-keys": PAGE_KEYS}
        token = ""
        while True:
            more = {"continuation-token": token} if token else {}
            body = self._asked({**query, "prefix": prefix, **more})
            page = parse_page(body, self._what(prefix))
            # consoles create empty objects that represent folders
            yield from (each for each in page.objects if not each.key.endswith("/"))
            token = page.next_token
            if not token:
                return

    def _one_page(self, prefix: str) -> tuple[StoredObject, ...]:
        """The first keys with this prefix; a key comes before all keys that start with it."""
        query = {"list-type": "2", "max-keys": "1", "prefix": prefix}
        return parse_page(self._asked(query), self._what(prefix)).objects

    def _single(self, key: str) -> StoredObject | None:
        """The HEAD of one object, or None if access is denied as well."""
        url = self._url(key)
        with self._web.send(url, self._signed("HEAD", url), "HEAD") as answer:
            if answer.status != 200:
                return None
            size = parse_size(answer.headers.get("Content-Length", ""))
            return StoredObject(key, size, answer.headers.get("ETag", "").strip('"'))

    def _asked(self, query: dict[str, str]) -> bytes:
        """The body of a listing, from the region of the bucket."""
        for _ in range(2):
            url = f"{self._url('')}?{canonical_query(urlencode(query))}"
            with self._web.send(url, self._signed("GET", url)) as answer:
                if answer.status == 200:
                    return answer.body()
                said = parse_error(answer.error_text())
                region = answer.headers.get(REGION_HEADER, "") or said.region
                wrong = answer.status in {301, 307} or said.code in WRONG_REGION
                if wrong and region and region != self._region and not self._source.region:
                    log.info("bucket %s is in region %s", self._source.bucket, region)
                    self._region = region
                    continue
                if wrong:
                    raise self._elsewhere(region)
                raise self._failure(answer, said, self._what(self._source.path))
        raise self._elsewhere(self._region)

    def _failure(self, answer: Answer, said: S3Error, what: str) -> FetchError:
        told = self._keys.key(utc_now()) is not None
        asked = Asked(what, self._source.bucket, host_of(answer.url), told)
        return failure_of_s3(answer.status, answer.headers, said, asked, utc_now())

    def _elsewhere(self, region: str) -> BadSource:
        there = f"in region {region}" if region else "in another region"
        return BadSource(
            f"bucket '{self._source.bucket}' is {there}, not in {self._region}: append "
            f"?region={region or 'REGION'} to the URI, or set AWS_REGION in the Secret"
        )

    def _entry(self, found: StoredObject, path: str) -> Entry:
        # the ETag of a multipart upload, or of an encrypted object, is not the MD5 of the content
        digest = Digest(Algorithm.MD5, found.etag) if MD5.fullmatch(found.etag) else None
        etag = f'"{found.etag}"' if found.etag else ""
        return Entry(path, self._url(found.key), found.size, found.etag, etag, digest)

    def _url(self, key: str) -> str:
        bucket, path = self._source.bucket, quoted_path(key)
        if self._source.endpoint:
            return (
                f"{self._source.endpoint}/{bucket}/{path}"
                if key
                else (f"{self._source.endpoint}/{bucket}")
            )
        suffix = "amazonaws.com.cn" if self._region.startswith("cn-") else "amazonaws.com"
        host = f"s3.{self._region}.{suffix}"
        # a wildcard certificate does not cover a bucket with a dot in its name
        if "." in bucket:
            return f"https://{host}/{bucket}/{path}"
        return f"https://{bucket}.{host}/{path}"

    def _signed(
        self, method: str, url: str, headers: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        key = self._keys.key(utc_now())
        if key is None:
            return dict(headers or {})
        return sign(method, url, headers or {}, key=key, region=self._region, now=utc_now())

    def _what(self, path: str) -> str:
        return f"s3://{self._source.bucket}/{path}"
