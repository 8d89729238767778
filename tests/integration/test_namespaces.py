"""An operator for a list of namespaces, with the rights that the chart grants in each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import quick_watches
from support.chart_rights import operators_kubeconfig
from support.operator_cluster import Api, OperatorProcess, eventually, model

pytestmark = pytest.mark.integration

RELEASE = "moorage-in-some"
"""A second release of the chart, next to the one for all namespaces."""

GONE_SECONDS = 60.0
"""The namespace controller retries the deletion of contents after a few seconds."""


class Installation:
    """An operator for a list of namespaces."""

    def __init__(self, api: Api, folder: Path) -> None:
        self.api = api
        self.folder = folder
        self.names: list[str] = []
        self.operator: OperatorProcess | None = None

    def create(self, suffix: str) -> Api:
        """A namespace of the list."""
        made = Api(self.api.kubeconfig, f"{self.api.namespace}-{suffix}")
        made.of("Namespace").create(
            body={
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": made.namespace},
            }
        )
        self.names.append(made.namespace)
        return made

    def grant(self) -> Path:
        """Grant the operator its rights in the existing namespaces."""
        return operators_kubeconfig(self.api.kubeconfig, self.folder, self.names, release=RELEASE)

    def start(self, *more: str) -> OperatorProcess:
        """The operator, with missing namespaces in its list."""
        options = ("--namespaces", ",".join([*self.names, *more]))
        program = (Path(quick_watches.__file__),)
        self.operator = OperatorProcess(
            self.grant(), self.folder / "log", options, program=program
        )
        self.operator.start()
        self.operator.wait_ready()
        return self.operator


@pytest.fixture
def installation(api: Api, operator: OperatorProcess, tmp_path: Path) -> Iterator[Installation]:
    """The namespaces, while the operator of all namespaces is stopped."""
    made = Installation(api, tmp_path)
    with operator.held():
        try:
            yield made
        finally:
            if made.operator:
                made.operator.stop()


def served(operator: OperatorProcess, namespace: str) -> float:
    return operator.metric("moorage_namespace_served", f'watched_namespace="{namespace}"')


def test_thirty_namespaces_are_served(installation: Installation) -> None:
    namespaces = [installation.create(f"n{number}") for number in range(30)]

    operator = installation.start()

    first, last = namespaces[0], namespaces[-1]
    for each in (first, last):
        each.apply(model("iris"))
        eventually("a Deployment", lambda each=each: each.get("Deployment", "iris"), seconds=40)
    assert operator.metric("moorage_namespace_served") == 30
    assert operator.ask("/readyz") == (200, "ok")


def test_a_recreated_namespace_does_not_affect_the_others(
    installation: Installation,
) -> None:
    kept, lost = installation.create("kept"), installation.create("lost")
    operator = installation.start()
    lost.apply(model("iris"))
    eventually("a Deployment", lambda: lost.get("Deployment", "iris"))

    lost.of("Namespace").delete(name=lost.namespace)
    eventually(
        "it is reported", lambda: served(operator, lost.namespace) == 0, seconds=GONE_SECONDS
    )
    assert operator.logged(r"(denies access to it)")
    assert operator.logged(rf'"watched_namespace": "({lost.namespace})"')
    kept.apply(model("rose"))
    eventually("the other is served", lambda: kept.get("Deployment", "rose"))
    assert served(operator, kept.namespace) == 1
    assert operator.metric("moorage_models") == 1
    assert operator.ask("/readyz") == (200, "ok")
    assert operator.ask("/livez") == (200, "ok")

    def is_gone() -> bool:
        found = lost.of("Namespace").get().to_dict()["items"]
        return lost.namespace not in [each["metadata"]["name"] for each in found]

    eventually("it is gone", is_gone, seconds=GONE_SECONDS)
    installation.names.remove(lost.namespace)
    again = installation.create("lost")
    again.apply(model("iris"))
    installation.grant()
    eventually("served again", lambda: served(operator, lost.namespace) == 1, seconds=60)
    eventually("a Deployment", lambda: again.get("Deployment", "iris"), seconds=40)


def test_a_namespace_created_after_startup_is_served(
    installation: Installation,
) -> None:
    kept = installation.create("kept")
    late = f"{installation.api.namespace}-late"
    operator = installation.start(late)
    kept.apply(model("rose"))
    eventually("the other is served", lambda: kept.get("Deployment", "rose"))
    assert operator.ask("/readyz") == (200, "ok")
    assert served(operator, late) == 0

    made = installation.create("late")
    made.apply(model("iris"))
    installation.grant()

    eventually("a Deployment", lambda: made.get("Deployment", "iris"), seconds=60)
    assert served(operator, late) == 1
