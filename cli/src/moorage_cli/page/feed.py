"""All models, followed once for all open pages.

API server -> changes -> Feed -> a queue of each page

A page first gets every row, then each change. If the API server does not answer, the page keeps
its rows and shows why. Afterwards it gets every row again.
"""

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from moorage_cli.page.rows import key_of, row
from moorage_cli.printing.failures import Failure

__all__ = ["Change", "Feed", "Message"]

Change = tuple[str, Any]
"""`("ALL", resources)`, or `("PUT" or "DELETED", resource)`."""

Message = Mapping[str, Any]
"""`{"all": rows}`, `{"put": row}`, `{"deleted": key}`, or `{"lost": sentence}`."""

RETRY_SECONDS = 2.0
# A page that does not read loses its place and has to begin again.
QUEUE_LIMIT = 5000


class Feed:
    """The rows of all models, and who follows them.

    Args:
        changes: Yields the changes; raises Failure if the API server does not answer.
        end: Ends `changes` while another thread waits for the next one.
        is_final: Whether to end every page's queue after this failure instead of trying again.
    """

    def __init__(
        self,
        changes: Callable[[], Iterator[Change]],
        end: Callable[[], None] = lambda: None,
        is_final: Callable[[Failure], bool] = lambda _: False,
    ) -> None:
        self._changes = changes
        self._end = end
        self._is_final = is_final
        self._rows: dict[str, dict[str, Any]] | None = None
        self._lost = ""
        self._pages: list[queue.Queue[Message | None]] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        threading.Thread(target=self._run, daemon=True, name="feed").start()

    def follow(self) -> "queue.Queue[Message | None]":
        """A queue with all rows and every change from now on; None ends it."""
        page: queue.Queue[Message | None] = queue.Queue(QUEUE_LIMIT)
        with self._lock:
            if self._rows is not None:
                page.put({"all": list(self._rows.values())})
            if self._lost:
                page.put({"lost": self._lost})
            if self._ended.is_set():
                page.put(None)
            self._pages.append(page)
        return page

    def leave(self, page: "queue.Queue[Message | None]") -> None:
        """Stop following."""
        with self._lock:
            if page in self._pages:
                self._pages.remove(page)

    def close(self) -> None:
        """End every page's queue, and the changes."""
        with self._lock:
            self._ended.set()
            for page in self._pages:
                _put(page, None)
        self._end()

    def _run(self) -> None:
        while not self._ended.is_set():
            sentence = "the watch ended"
            try:
                for kind, found in self._changes():
                    self._take(kind, found)
                    del found  # the next change may be hours away
            except Failure as failure:
                if self._is_final(failure):
                    self.close()
                    return
                sentence = str(failure)
            if self._lost != sentence:
                self._lost = sentence
                self._tell({"lost": sentence})
            self._ended.wait(RETRY_SECONDS)

    def _take(self, kind: str, found: Any) -> None:
        self._lost = ""
        if kind == "ALL":
            rows = {key_of(each): row(each) for each in found}
            with self._lock:
                self._rows = rows
            self._tell({"all": list(rows.values())})
            return
        key, changed = key_of(found), row(found)
        with self._lock:
            rows = self._rows = self._rows if self._rows is not None else {}
            if kind == "DELETED":
                rows.pop(key, None)
            else:
                rows[key] = changed
        self._tell({"deleted": key} if kind == "DELETED" else {"put": changed})

    def _tell(self, message: Message) -> None:
        with self._lock:
            for page in list(self._pages):
                if not _put(page, message):
                    self._pages.remove(page)


def _put(page: "queue.Queue[Message | None]", message: Message | None) -> bool:
    """Whether the page had room; otherwise its queue ends, and the page connects again."""
    try:
        page.put_nowait(message)
    except queue.Full:
        with page.mutex:  # its reader may take the last message meanwhile
            page.queue.clear()
            page.queue.append(None)
        return False
    return True
