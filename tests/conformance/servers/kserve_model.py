"""A KServe server with an echo model that becomes ready when a file appears.

Runs in a separate environment, because its protobuf messages have the same names as the
operator's.

    kserve_model.py HTTP_PORT GRPC_PORT READY_FILE
"""

import sys
import threading
import time
from pathlib import Path

from kserve import Model, ModelServer


class Echo(Model):
    """A model that reports ready after a signal."""

    def __init__(self, name: str, told: Path) -> None:
        super().__init__(name)
        self.ready = False
        threading.Thread(target=self._wait, args=[told], daemon=True).start()

    def _wait(self, told: Path) -> None:
        while not told.exists():
            time.sleep(0.05)
        self.ready = True

    async def predict(self, payload, headers=None):
        del headers
        return payload


if __name__ == "__main__":
    http_port, grpc_port, told = sys.argv[1:]
    server = ModelServer(http_port=int(http_port), grpc_port=int(grpc_port), enable_grpc=True)
    server.register_model(Echo("iris", Path(told)))
    server.start([])
