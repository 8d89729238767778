"""Without the right to read Secrets, none is requested, and the message says what to check."""

import pytest

from support.iris import message
from support.operator_cluster import Api, Kubelet, OperatorProcess, eventually, model

pytestmark = pytest.mark.integration


def test_a_pod_that_mounts_a_missing_secret_is_reported_without_a_lookup(
    operator: OperatorProcess, api: Api, kubelet: Kubelet
) -> None:
    volume = {"name": "keys", "secret": {"secretName": "signing-keys"}}
    runtime = {"image": "example/server:1"}
    api.apply(model("iris", runtime=runtime, podTemplate={"spec": {"volumes": [volume]}}))
    (pod,) = eventually("a pod", lambda: kubelet.pods("iris"))
    kubelet.wait(pod, "ContainerCreating", "")

    eventually("the Secret is named", lambda: 'Secret "signing-keys" exists' in message(api))

    assert "not allowed" in message(api)
    assert api.condition("iris") == ("False", "Pending")
    requests = [
        line
        for line in operator.ask("/metrics")[1].splitlines()
        if "moorage_api_requests_total" in line
    ]
    assert any('resource="configmaps"' in line or 'resource="pods"' in line for line in requests)
    assert not any('resource="secrets"' in line for line in requests)
