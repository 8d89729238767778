"""Who may use the page, and what for: what the server needs of its two kinds of access.

    headers of a request -> Access.admit -> Visit: actions, and a queue of rows
                                         -> Refused: a status and a sentence

`local_access` admits the user of this machine, `token_access` users with a token of the cluster.
"""

import queue
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol

from moorage_cli.page.feed import Message
from moorage_cli.printing.failures import Failure

__all__ = ["Access", "Actions", "Refused", "Rows", "Visit"]

Rows = queue.Queue[Message | None]
"""The rows that a page is sent; None ends them."""


class Refused(Failure):
    """The request is not admitted.

    Args:
        status: The status of the answer.
        sentence: Why.
    """

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True, slots=True)
class Actions:
    """What a page can ask for; each raises Failure with a sentence for the user.

    Args:
        details: A model by namespace and name.
        log: The lines of a pod's server, as they come; namespace and pod.
        do: A named command for a model, with the fields of the request.
    """

    details: Callable[[str, str], Mapping[str, Any]]
    log: Callable[[str, str], Iterator[str]]
    do: Callable[[str, Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Visit:
    """What an admitted page can use.

    Args:
        actions: What it can ask for.
        follow: The models of a namespace, or of all that it may see if the name is empty.
    """

    actions: Actions
    follow: Callable[[str], AbstractContextManager[Rows]]


class Headers(Protocol):
    """The headers of a request."""

    def get(self, name: str, failobj: str, /) -> str:
        """A header, or the second argument without it."""
        ...


class Access(Protocol):
    """A kind of access."""

    place: str
    """The cluster; empty for the one that serves the page."""

    has_sign_in: bool
    """Whether users sign in with a token of the cluster."""

    body_limit: int
    """The largest body in bytes."""

    def check_host(self, headers: Headers, port: int) -> None:
        """Raise Refused if the page must not be reached by this address."""
        ...

    def admit(self, headers: Headers) -> Visit:
        """What the sender of these headers can use, or Refused."""
        ...
