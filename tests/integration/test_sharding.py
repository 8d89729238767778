"""Two installations share a cluster by label: each serves its models, and a model can move."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.chart_rights import operators_kubeconfig
from support.operator_cluster import (
    Api,
    OperatorProcess,
    control_plane,
    eventually,
    install_crd,
    model,
)

pytestmark = pytest.mark.integration

SHARD = "moorage.dev/shard"
SELECTORS = {"a": f"{SHARD}=a", "b": f"{SHARD}=b"}

Shards = dict[str, OperatorProcess]


@pytest.fixture
def shards(tmp_path: Path) -> Iterator[tuple[Api, Shards]]:
    """The test's own control plane with an operator for each of two labels."""
    folder = tmp_path / "control-plane"
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.callback(control_plane, "down", folder)
        control_plane("up", folder)
        kubeconfig = folder / "kubeconfig"
        install_crd(kubeconfig)
        rights = operators_kubeconfig(kubeconfig, tmp_path)
        operators = {
            name: OperatorProcess(
                rights,
                tmp_path / f"operator-{name}.log",
                options=("--watch-label-selector", selector),
            )
            for name, selector in SELECTORS.items()
        }
        for operator in operators.values():
            operator.start()
            stack.callback(operator.stop)
            operator.wait_ready()
        yield Api(kubeconfig, "default"), operators


def labelled(name: str, shard: str) -> dict[str, object]:
    body = model(name)
    return {**body, "metadata": {**body["metadata"], "labels": {SHARD: shard}}}


def serves(operator: OperatorProcess, count: int) -> bool:
    return operator.metric("moorage_models") == count


def test_a_model_moves_between_operators_with_its_label_and_keeps_running(
    shards: tuple[Api, Shards],
) -> None:
    api, operators = shards
    api.apply(labelled("one", "a"))
    api.apply(labelled("two", "b"))
    api.apply(labelled("nobodys", "c"))
    eventually("each has its own", lambda: all(serves(each, 1) for each in operators.values()))
    eventually(
        "both have a status", lambda: all(api.condition(each)[0] for each in ("one", "two"))
    )
    before = {kind: api.get(kind, "one") for kind in ("Deployment", "Service")}
    writes = operators["b"].metric("moorage_child_writes_total")

    api.patch("InferenceModel", "one", {"metadata": {"labels": {SHARD: "b"}}})

    eventually("it has moved", lambda: serves(operators["a"], 0) and serves(operators["b"], 2))
    # only its new operator follows an edit now
    api.patch("InferenceModel", "one", {"spec": {"replicas": 3}})
    eventually(
        "the edit is followed", lambda: api.get("Deployment", "one")["spec"]["replicas"] == 3
    )
    after = {kind: api.get(kind, "one") for kind in ("Deployment", "Service")}
    uids = {kind: body["metadata"]["uid"] for kind, body in before.items()}
    assert {kind: body["metadata"]["uid"] for kind, body in after.items()} == uids
    assert after["Deployment"]["spec"]["template"] == before["Deployment"]["spec"]["template"]
    assert (
        after["Service"]["metadata"]["resourceVersion"]
        == (before["Service"]["metadata"]["resourceVersion"])
    )
    # nothing but the edit was written: the Deployment, and the budget that three replicas need
    assert operators["b"].metric("moorage_child_writes_total") - writes <= 2
    assert api.get("Deployment", "nobodys") == {}
    assert api.get("InferenceModel", "nobodys").get("status") is None
