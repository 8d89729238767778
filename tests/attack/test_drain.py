"""A server that receives SIGTERM under steady load closes its ports without cutting a request."""

import http.client
import json
import signal
import threading
import time
from dataclasses import dataclass, field

import pytest

from support.runtime import serving

pytestmark = pytest.mark.attack

BODY = json.dumps(
    {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1.0]}]}
).encode()
LOAD_SECONDS = 0.5


@dataclass
class Outcome:
    answered: int = 0
    cut: list[str] = field(default_factory=list)


def ask_until_refused(port, *, keeps, outcome):
    """A closed loop; a request counts as cut if it was sent and not answered completely."""
    client = None
    while True:
        if client is None:
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            try:
                client.connect()
            except ConnectionRefusedError:
                return
        try:
            client.request("POST", "/v2/models/slow/infer", BODY)
            answer = client.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException) as error:
            outcome.cut.append(repr(error))
            client = None
            continue
        outcome.answered += answer.status in (200, 503)
        if not keeps or answer.will_close:
            client.close()
            client = None


@pytest.mark.parametrize("keeps", [True, False], ids=["kept connections", "new connections"])
@pytest.mark.parametrize("workers", [1, 2])
def test_sigterm_under_steady_load_cuts_no_request(repository, keeps, workers):
    options = ["--drain-seconds=0.5", f"--workers={workers}"]
    with serving(repository, *options) as runtime:
        outcomes = [Outcome() for _ in range(8)]
        threads = [
            threading.Thread(
                target=ask_until_refused,
                args=(runtime.http_port,),
                kwargs={"keeps": keeps, "outcome": outcome},
            )
            for outcome in outcomes
        ]
        for thread in threads:
            thread.start()
        time.sleep(LOAD_SECONDS)  # duration of the load
        runtime.process.send_signal(signal.SIGTERM)
        begun = time.monotonic()
        for thread in threads:
            thread.join(40)
        status = runtime.process.wait(30)
        seconds = time.monotonic() - begun

    assert [outcome.cut for outcome in outcomes] == [[]] * len(outcomes)
    assert all(outcome.answered for outcome in outcomes)
    assert status == 0
    assert (
        seconds < 15
    )  # the drain delay and a running request, far below the grace period of 20 s
