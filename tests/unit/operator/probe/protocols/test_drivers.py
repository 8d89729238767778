"""The available drivers, and when their modules are imported."""

import subprocess
import sys

import pytest

from moorage_operator.api.v1alpha1 import Protocol, Transport
from moorage_operator.probe.protocols.drivers import Drivers

WITHOUT_GRPC = """
import sys
import moorage_operator.app
from moorage_operator.probe.protocols.drivers import Drivers

made = Drivers()
made["OpenInference", "HTTP"], made["TensorFlowServing", "HTTP"]
print([name for name in ("grpc", "google.protobuf") if name in sys.modules])
made["OpenInference", "GRPC"]
print("grpc" in sys.modules)
"""


async def test_each_way_has_one_driver_and_protocols_share_channels() -> None:
    drivers = Drivers()

    made = {way: drivers[way] for way in drivers}

    assert len(made) == len(drivers) == len(set(map(id, made.values())))
    assert all(drivers[way] is driver for way, driver in made.items())
    assert {protocol for protocol, _ in made} == set(Protocol) - {Protocol.AUTO}
    assert {transport for _, transport in made} == set(Transport)
    await drivers.close()


async def test_an_unknown_way_has_no_driver() -> None:
    with pytest.raises(KeyError):
        Drivers()["OpenInference", "QUIC"]


def test_grpc_is_imported_with_the_first_model_that_needs_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_GRPC], capture_output=True, text=True, check=True
    )

    assert done.stdout.split("\n")[:2] == ["[]", "True"]
