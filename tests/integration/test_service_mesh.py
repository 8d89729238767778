"""Models in a mesh with strict mTLS: the documented annotations, and the message without them.

A mesh's proxy accepts a plaintext connection and resets it; so does the server of these tests.
"""

import re
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from support.iris import message
from support.operator_cluster import Api, Kubelet, ModelServer, OperatorProcess, eventually, model

pytestmark = pytest.mark.integration

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "service-mesh.md"
RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER: on, for no time


@pytest.fixture
def resetting() -> Iterator[int]:
    """The port of a server that resets every connection once something was sent."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):  # the listener is closed at the end
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(10)


def test_the_documented_annotations_reach_the_pods(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    spec = yaml.safe_load(block)["spec"]
    wanted = spec["podTemplate"]["metadata"]["annotations"]
    runtime = {"image": "example/server:1", "ports": {"http": server.port}}

    api.apply(model("iris", runtime=runtime, **spec))
    (pod,) = eventually("a pod", lambda: kubelet.pods("iris"))
    kubelet.run(pod)

    assert wanted.items() <= pod["metadata"]["annotations"].items()
    eventually("Ready", lambda: api.condition("iris") == ("True", "Serving"))


def test_reset_connections_of_a_ready_pod_mention_the_service_mesh(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, resetting: int
) -> None:
    runtime = {"image": "example/server:1", "ports": {"http": resetting}}
    health = {"periodSeconds": 1, "failureThreshold": 2}
    api.apply(model("iris", runtime=runtime, health=health))
    (pod,) = eventually("a pod", lambda: kubelet.pods("iris"))
    kubelet.run(pod, ready=True)

    eventually(
        "the mesh is named",
        lambda: "a service mesh with strict mTLS" in message(api, "ModelReady"),
    )

    assert api.condition("iris", "ModelReady")[1] == "ServerNotLive"
    assert "docs/how-to/service-mesh.md" in message(api, "ModelReady")
