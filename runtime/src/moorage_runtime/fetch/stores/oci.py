"""OCI registries: the layers of an image, or the files of an artifact.

Every blob is verified by its digest, and the manifest by the digest in the URI, if any.
Source: OCI Distribution Specification, "Pulling manifests" and "Pulling blobs".
"""

import hashlib
import platform
from collections.abc import Mapping
from typing import Any

from moorage_runtime.fetch.decide.credentials import Credentials
from moorage_runtime.fetch.decide.entries import Digest, Entry, Listing, checked
from moorage_runtime.fetch.decide.failures import Corrupt, FetchError
from moorage_runtime.fetch.decide.json_answers import parse_object
from moorage_runtime.fetch.decide.oci_manifest import ACCEPTED, entries_of, image_of
from moorage_runtime.fetch.decide.source import OciSource
from moorage_runtime.fetch.stores.registry_token import RegistryToken
from moorage_runtime.fetch.stores.store import plain_failure
from moorage_runtime.fetch.web import Answer, Web

__all__ = ["OciStore"]

DOCKER_HUB = {"docker.io": "registry-1.docker.io", "index.docker.io": "registry-1.docker.io"}
# Registry clients use plain HTTP for the local machine.
LOOPBACK = {"localhost", "127.0.0.1"}


class OciStore:
    """One image or artifact.

    Args:
        source: The source.
        web: The network.
        credentials: `.dockerconfigjson`, or `username` and `password`.
    """

    def __init__(self, source: OciSource, web: Web, credentials: Credentials) -> None:
        self._source = source
        self._web = web
        host = DOCKER_HUB.get(source.registry, source.registry)
        scheme = "http" if host.partition(":")[0] in LOOPBACK else "https"
        basic = credentials.registry(source.registry, source.repository)
        self._told = bool(basic)
        self._repository = f"{scheme}://{host}/v2/{source.repository}"
        self._token = RegistryToken(f"{scheme}://{host}", source.repository, basic, web)
        mark = "@" if ":" in source.reference else ":"
        self._what = f"oci://{source.registry}/{source.repository}{mark}{source.reference}"

    def listing(self) -> Listing:
        """The layers or files of the image for this machine; see `Store`."""
        manifest, digest = self._manifest(self._source.reference)
        if image := image_of(manifest, platform.machine(), self._what):
            manifest, _ = self._manifest(str(image))
        blobs = f"{self._repository}/blobs/"
        found = entries_of(manifest, blobs, self._source.path, self._what)
        return Listing(checked(found, self._what), digest)

    def headers(self, entry: Entry, wanted: Mapping[str, str]) -> dict[str, str]:
        """The token; see `Store`."""
        del entry
        return {**wanted, **self._token.headers()}

    def promised(self, entry: Entry, headers: Mapping[str, str]) -> Digest | None:
        """The blob's own digest; see `Store`."""
        del headers
        return entry.digest

    def failure(self, answer: Answer, what: str) -> FetchError:
        """The failure for the status; see `Store`."""
        del what
        return plain_failure(answer, self._what, told=self._told)

    def _manifest(self, reference: str) -> tuple[Mapping[str, Any], str]:
        """A manifest or an index, and its digest."""
        url = f"{self._repository}/manifests/{reference}"
        with self._web.open(url, {**self._token.headers(), "Accept": ACCEPTED}) as answer:
            if answer.status != 200:
                raise self.failure(answer, self._what)
            body = answer.body()
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if ":" in reference and digest != reference:
            raise Corrupt(
                f"{self._what}: the manifest has the digest {digest}, not the one in the URI"
            )
        return parse_object(body, self._what), digest
