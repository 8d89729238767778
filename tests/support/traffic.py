"""Continuous requests from a separate process, and their results.

`python -m support.traffic URL BODY PAUSE` sends requests until its standard input ends, then
prints JSON: the number of answered requests, and the failures. Every request has its own
connection, so it goes to the pods that the Service selects at that time.
"""

import http.client
import json
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from support.client_process import client_process

TIMEOUT_SECONDS = 10
PAUSE_SECONDS = 0.01


@dataclass
class Tally:
    """The results of the requests; available when the traffic ends."""

    answered: int = 0
    failures: list[str] = field(default_factory=list)


@contextmanager
def traffic(
    url: str, body: dict[str, Any], *, pause_seconds: float = PAUSE_SECONDS
) -> Iterator[Tally]:
    """Requests from the start of the block to its end, when the tally is filled in."""
    tally = Tally()
    arguments = (url, json.dumps(body), str(pause_seconds))
    with client_process("support.traffic", *arguments) as result:
        yield tally
    tally.answered, tally.failures = result["answered"], result["failures"]


def main(url: str, body: str, pause_seconds: str) -> None:
    """Ask until standard input ends, with a pause after each answer; print the tally."""
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    answered, failures = 0, []
    while not ended.is_set():
        began = time.strftime("%H:%M:%S")
        try:
            with urllib.request.urlopen(
                urllib.request.Request(url, data=body.encode()), timeout=TIMEOUT_SECONDS
            ) as answer:
                answer.read()
            answered += 1
        except urllib.error.HTTPError as error:
            with error:
                failures.append(f"{began} {error.code} {error.read(200)!r}")
        except (OSError, http.client.HTTPException) as error:
            failures.append(f"{began} {error!r}")
        time.sleep(float(pause_seconds))
    sys.stdout.write(json.dumps({"answered": answered, "failures": failures}))


if __name__ == "__main__":
    main(*sys.argv[1:])
