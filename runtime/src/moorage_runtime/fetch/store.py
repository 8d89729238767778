"""What every store does: list the files of a source, and say how to ask for one of them.

`listing` may be asked again after an `Unreachable`; `headers` are made anew for each attempt,
since signatures and tokens expire while a large model is on its way.
"""

from collections.abc import Mapping
from typing import Protocol

from moorage_runtime.fetch.answers import failure_of
from moorage_runtime.fetch.clock import utc_now
from moorage_runtime.fetch.entries import Digest, Entry, Listing
from moorage_runtime.fetch.failures import FetchError
from moorage_runtime.fetch.web import Answer

__all__ = ["Store", "plain_failure"]


class Store(Protocol):
    """One place where models are."""

    def listing(self) -> Listing:
        """The files as they are now.

        Raises:
            FetchError: They cannot be listed.
        """
        ...

    def headers(self, entry: Entry) -> dict[str, str]:
        """What to send with a request for the file, good for some minutes.

        Raises:
            FetchError: No credential can be had.
        """
        ...

    def promised(self, entry: Entry, headers: Mapping[str, str]) -> Digest | None:
        """What the file's bytes must hash to, when this answer brings them."""
        ...

    def failure(self, answer: Answer, what: str) -> FetchError:
        """What an answer that is no success means; reads its body."""
        ...


def plain_failure(answer: Answer, what: str, *, told: bool) -> FetchError:
    """The failure of a store that says nothing of its own that would help."""
    text = answer.error_text()
    detail = "" if "<" in text[:64] else text  # a page for people
    return failure_of(answer.status, answer.headers, what, detail, now=utc_now(), told=told)
