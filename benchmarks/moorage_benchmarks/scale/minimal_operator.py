"""The operator's libraries, imported and not used: the floor of its start and of its memory.

    ENVIRONMENT/bin/python minimal_operator.py

It runs in the operator's own environment, where nothing of the benchmarks is installed.
"""

import importlib
import signal

LIBRARIES = (
    "aiohttp",
    "google.protobuf.message",
    "grpc",
    "httpx",
    "kopf",
    "msgspec",
    "prometheus_client",
    "uvloop",
    "yaml",
)
IMPORTED = "imported"


def main() -> None:
    """Import, say so, and wait for the end."""
    for library in LIBRARIES:
        importlib.import_module(library)
    print(IMPORTED, flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
