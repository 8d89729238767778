"""gRPC clients while pods are replaced, scaled down and deleted: no call is lost."""

import pytest

from support.grpc_traffic import grpc_traffic
from support.kubectl import KIND, Kubectl
from support.manifests import digits, digits_files, sample
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

PODS = "moorage.dev/model=digits"

# What the test ends below: two by an edit, one by scaling, one by hand.
ENDED_PODS = 4


def names(kubectl: Kubectl) -> set[str]:
    """The names of the pods, including terminating ones."""
    return {pod["metadata"]["name"] for pod in kubectl.items("pods", PODS)}


def settled(kubectl: Kubectl, replicas: int, without: set[str]) -> set[str]:
    """Wait until exactly this many pods serve the spec."""
    kubectl.wait_condition("digits", "UpToDate", "True", seconds=120)
    return eventually(
        f"{replicas} pods without {without}",
        lambda: names(kubectl),
        lambda now: len(now) == replicas and not now & without,
        120,
    )


# grpcio cancels a call that comes in between the start of its shutdown and the client's seeing
# that (docs/decisions/grpc-transport.md): of a client with one call at a time, one for each pod.
@pytest.mark.parametrize(("transport", "cancelled"), [("native", 0), ("grpcio", ENDED_PODS)])
def test_no_call_is_lost_while_pods_are_replaced_scaled_away_and_deleted(
    kubectl, transport, cancelled
):
    chosen = {"name": "MOORAGE_GRPC_TRANSPORT", "value": transport}
    kubectl.apply(digits_files(), digits(replicas=2, runtime={"env": [chosen]}))
    first = settled(kubectl, 2, set())
    address = kubectl.get("service", "digits")["spec"]["clusterIP"]

    with grpc_traffic(f"{address}:8001", "digits", sample(3)) as tally:
        edited = [chosen, {"name": "EDITED", "value": "1"}]
        kubectl.apply(digits(replicas=2, runtime={"env": edited}))
        second = settled(kubectl, 2, first)
        kubectl.run("scale", f"{KIND}/digits", "--replicas=1")
        (last,) = settled(kubectl, 1, set())
        assert last in second
        kubectl.run("scale", f"{KIND}/digits", "--replicas=2")
        settled(kubectl, 2, set())
        kubectl.run("delete", "pod", last, "--wait=false")
        settled(kubectl, 2, {last})

    by_shutdown = [each for each in tally.failures if "kept: StatusCode.CANCELLED" in each]
    assert [each for each in tally.failures if each not in by_shutdown] == []
    assert len(by_shutdown) <= cancelled, by_shutdown
    assert min(tally.kept, tally.fresh) > 100
