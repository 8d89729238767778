"""Azure Blob Storage: one blob, or all below a path.

A blob is requested with If-Match, so that a model never mixes two uploads.
"""

from collections.abc import Iterator, Mapping
from urllib.parse import quote, urlencode, urlsplit

from moorage_runtime.fetch.clock import utc_now
from moorage_runtime.fetch.decide.amounts import parse_size
from moorage_runtime.fetch.decide.azure_answers import (
    Asked,
    Blob,
    digest_of,
    failure_of_azure,
    is_folder,
    md5_of,
    parse_page,
)
from moorage_runtime.fetch.decide.azure_key import make_account_key, sign
from moorage_runtime.fetch.decide.credentials import Credentials
from moorage_runtime.fetch.decide.entries import Digest, Entry, Listing, checked, declared
from moorage_runtime.fetch.decide.failures import BadSource, Denied, FetchError, NotFound
from moorage_runtime.fetch.decide.source import AzureSource
from moorage_runtime.fetch.stores.azure_token import CLIENT, SECRET, AzureToken
from moorage_runtime.fetch.web import Answer, Web

__all__ = ["AzureStore"]

# Any server since 2021 knows this version of the API.
VERSION = "2020-10-02"
PAGE_BLOBS = "1000"
KEY, TOKEN = "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN"


class AzureStore:
    """Blobs of one container.

    Args:
        source: The source; the endpoint is empty for Azure's public cloud.
        web: The network.
        credentials: `AZURE_STORAGE_KEY`, or `AZURE_STORAGE_SAS_TOKEN`.
        identity: The token of an application or of the pod, used without these two.

    Raises:
        BadSource: Several credentials are set, or the key is not valid.
    """

    def __init__(
        self, source: AzureSource, web: Web, credentials: Credentials, identity: AzureToken
    ) -> None:
        self._source = source
        self._web = web
        text, token = credentials.text(KEY), credentials.text(TOKEN)
        given = [name for name in (KEY, TOKEN, SECRET) if credentials.text(name)]
        if len(given) > 1:
            raise BadSource(f"the Secret has both {' and '.join(given)}: keep only one of them")
        self._identity = None if text or token else identity
        self._key = make_account_key(source.account, text) if text else None
        # the portal copies a token with the '?' of a URL
        self._token = token.removeprefix("?")
        self._credential = given[0] if given else CLIENT if identity.given else ""
        self._container = f"{_base(source)}/{source.container}"

    def listing(self) -> Listing:
        """The blob with this name, or all below the path; see `Store`."""
        path = self._source.path.rstrip("/")
        what = self._what(self._source.path)
        single = path if path == self._source.path else ""
        prefix = f"{path}/" if path else ""
        try:
            found = list(self._below(prefix, what))
            if not found and single:
                found, prefix = [self._single(single)], _folder_of(single)
        except (Denied, NotFound):
            # The permission to read a blob does not include the permission to list.
            if not single:
                raise
            found, prefix = [self._single(single)], _folder_of(single)
        entries = checked((self._entry(each, each.name[len(prefix) :]) for each in found), what)
        return Listing(declared(entries, self._source.sha256, what))

    def headers(self, entry: Entry, wanted: Mapping[str, str]) -> dict[str, str]:
        """A fresh signature, which covers the wanted headers; see `Store`."""
        return self._signed("GET", entry.url, wanted)

    def promised(self, entry: Entry, headers: Mapping[str, str]) -> Digest | None:
        """The digest from the URI, otherwise the MD5 that the client stored at the upload."""
        del headers
        return entry.digest

    def failure(self, answer: Answer, what: str) -> FetchError:
        """The failure for the response; see `Store`."""
        source = self._source
        asked = Asked(what, source.account, source.container, self._credential)
        body = answer.error_text()
        return failure_of_azure(answer.status, answer.headers, body, asked, utc_now())

    def _below(self, prefix: str, what: str) -> Iterator[Blob]:
        query = {"restype": "container", "comp": "list", "include": "metadata"}
        query |= {"maxresults": PAGE_BLOBS, "prefix": prefix}
        marker = ""
        while True:
            more = {"marker": marker} if marker else {}
            url = self._authorized(
                f"{self._container}?{urlencode({**query, **more}, quote_via=quote)}"
            )
            with self._web.open(url, self._signed("GET", url)) as answer:
                if answer.status != 200:
                    raise self.failure(answer, what)
                page = parse_page(answer.body(), what)
            yield from page.blobs
            marker = page.marker
            if not marker:
                return

    def _single(self, name: str) -> Blob:
        """The blob with this name.

        Raises:
            FetchError: There is none, or it cannot be read.
        """
        url, what = self._url(name), self._what(name)
        with self._web.open(url, self._signed("HEAD", url), "HEAD") as answer:
            if answer.status != 200:
                raise self.failure(answer, what)
            headers = answer.headers
        if is_folder(headers):
            raise NotFound(f"{what} is an empty folder: check the path")
        size = parse_size(headers.get("Content-Length", ""))
        etag = headers.get("ETag", "").strip('"')
        return Blob(name, size, etag, md5_of(headers.get("Content-MD5", "")))

    def _entry(self, blob: Blob, path: str) -> Entry:
        etag = f'"{blob.etag}"' if blob.etag else ""
        url = self._url(blob.name)
        return Entry(path, url, blob.size, blob.etag, etag, digest_of(blob.md5))

    def _url(self, name: str) -> str:
        return self._authorized(f"{self._container}/{quote(name, safe='/-_.~')}")

    def _authorized(self, url: str) -> str:
        """The URL with the shared access signature, if the Secret has one."""
        if not self._token:
            return url
        return f"{url}{'&' if '?' in url else '?'}{self._token}"

    def _signed(
        self, method: str, url: str, wanted: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        headers = {"x-ms-version": VERSION, **(wanted or {})}
        if self._identity is not None:
            return {**headers, **self._identity.headers(utc_now())}
        if self._key is None:
            return headers
        return sign(method, url, headers, key=self._key, now=utc_now())

    def _what(self, path: str) -> str:
        source = self._source
        return f"azblob://{source.account}/{source.container}/{path}"


def _base(source: AzureSource) -> str:
    """The address of the account: part of the host at Azure, of the path at an emulator."""
    endpoint = source.endpoint or f"https://{source.account}.blob.core.windows.net"
    host = urlsplit(endpoint).hostname or ""
    return endpoint if host.startswith(f"{source.account}.") else f"{endpoint}/{source.account}"


def _folder_of(name: str) -> str:
    folder, slash, _ = name.rpartition("/")
    return folder + slash
