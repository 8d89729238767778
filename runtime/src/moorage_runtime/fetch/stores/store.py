"""The interface of stores: lists the files of a source, and builds the requests for them.

`listing` may be called again after an `Unreachable`. `headers` are built for each attempt, because
signatures and tokens expire during a long download.
"""

from collections.abc import Mapping
from typing import Protocol

from moorage_runtime.fetch.clock import utc_now
from moorage_runtime.fetch.decide.answers import failure_of
from moorage_runtime.fetch.decide.entries import Digest, Entry, Listing
from moorage_runtime.fetch.decide.failures import FetchError
from moorage_runtime.fetch.web import Answer

__all__ = ["Store", "plain_failure"]


class Store(Protocol):
    """A store of models."""

    def listing(self) -> Listing:
        """The files as they are now.

        Raises:
            FetchError: They cannot be listed.
        """
        ...

    def headers(self, entry: Entry, wanted: Mapping[str, str]) -> dict[str, str]:
        """The headers of a request for the file, valid for some minutes.

        Args:
            entry: The file.
            wanted: Headers that the result must include, such as Range; a signature may cover
                them.

        Raises:
            FetchError: There is no valid credential.
        """
        ...

    def promised(self, entry: Entry, headers: Mapping[str, str]) -> Digest | None:
        """The expected digest of the file's content, given the response with the content."""
        ...

    def failure(self, answer: Answer, what: str) -> FetchError:
        """The failure for a response other than success; reads its body."""
        ...


def plain_failure(answer: Answer, what: str, *, told: bool) -> FetchError:
    """The failure for a store without useful error messages of its own."""
    text = answer.error_text()
    detail = "" if "<" in text[:64] else text  # an HTML page
    return failure_of(answer.status, answer.headers, what, detail, now=utc_now(), told=told)
