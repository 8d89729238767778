#!/usr/bin/env python3
"""Asks the model of example 01 which digit a picture shows. Needs no packages.

python3 examples/23-clients/client.py [URL]
"""

import json
import pathlib
import sys
import time
import urllib.error
import urllib.request

URL = sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8000"
PICTURE = pathlib.Path(__file__).parent.parent / "01-digits" / "samples" / "digit-3.json"
TIMEOUT_SECONDS = 5
ATTEMPTS = 3
OVERLOADED = 503


def infer(model: str, body: bytes) -> dict[str, list[object]]:
    """Return the data of each output. An overloaded server is asked again, as it requests.

    Raises:
        SystemExit: The server reports an error.
    """
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{URL}/v2/models/{model}/infer", body, headers)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
                outputs = json.load(response)["outputs"]
                return {output["name"]: output["data"] for output in outputs}
        except urllib.error.HTTPError as error:
            if error.code != OVERLOADED or attempt == ATTEMPTS:
                sys.exit(f"status {error.code}: {error.read().decode()}")
            time.sleep(float(error.headers.get("Retry-After", "1")))
    raise AssertionError


if __name__ == "__main__":
    print("digit:", infer("digits", PICTURE.read_bytes())["label"][0])
