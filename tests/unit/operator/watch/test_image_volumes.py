"""Support for image volumes: the API server's answer combined with the nodes' versions."""

from typing import Any

import pytest
from aiohttp import web

from moorage_operator.kube.auth import Access
from moorage_operator.kube.client import KubeClient
from moorage_operator.watch import image_volumes
from moorage_operator.watch.image_volumes import Verdict, find, judge_nodes
from support.api_server import serving
from support.operator_values import CONFIG


def node(name: str, kubelet: str, runtime: str, system: str = "linux") -> dict[str, Any]:
    info = {
        "kubeletVersion": kubelet,
        "containerRuntimeVersion": runtime,
        "operatingSystem": system,
    }
    return {"metadata": {"name": name}, "status": {"nodeInfo": info}}


NEW = node("new", "v1.35.0", "containerd://2.1.0")


@pytest.mark.parametrize(
    ("nodes", "usable", "why"),
    [
        ([NEW], True, "1 nodes"),
        ([node("a", "v1.36.2-gke.100", "containerd://2.2.1"), NEW], True, "2 nodes"),
        ([node("a", "v1.35.1+k3s1", "cri-o://1.35.0")], True, "1 nodes"),
        ([node("a", "v2.0.0", "containerd://10.0.0")], True, "1 nodes"),
        ([node("w", "v1.30.0", "containerd://1.7.0", "windows"), NEW], True, "1 nodes"),
        ([NEW, node("old", "v1.34.4", "containerd://2.1.0")], False, "node old has kubelet v1.34"),
        ([NEW, node("old", "v1.35.0", "containerd://2.0.9")], False, "has containerd 2.0.9"),
        ([node("a", "v1.35.0", "cri-o://1.32.1")], False, "has cri-o 1.32.1, expected 1.33"),
        ([node("a", "v1.35.0", "docker://28.0.0")], False, "container runtime docker, expected"),
        ([node("a", "v1.35.0", "containerd://Unknown")], False, "has containerd Unknown"),
        ([], False, "no Linux node"),
    ],
)
def test_all_linux_nodes_must_support_image_volumes(
    nodes: list[dict[str, Any]], usable: bool, why: str
) -> None:
    found = judge_nodes(nodes)

    assert found.usable is usable
    assert why in found.why


class Cluster:
    """Answers a dry run by keeping or dropping the image or with a status, and lists nodes."""

    def __init__(self, trial: str | int, *nodes: dict[str, Any], nodes_status: int = 200) -> None:
        self.trial = trial
        self.nodes = nodes
        self.nodes_status = nodes_status
        self.queries: list[str] = []

    async def __call__(self, request: web.Request) -> web.Response:
        self.queries.append(request.query_string)
        if request.method == "GET":
            body = {"metadata": {}, "items": self.nodes, "message": "no nodes for you"}
            return web.json_response(body, status=self.nodes_status)
        if isinstance(self.trial, int):
            return web.json_response({"message": "no"}, status=self.trial)
        body = await request.json()
        if self.trial == "drops":
            del body["spec"]["template"]["spec"]["volumes"][0]["image"]
        return web.json_response(body)


@pytest.mark.parametrize(
    ("cluster", "usable", "why"),
    [
        (Cluster("keeps", NEW), True, "1 nodes"),
        (Cluster("drops", NEW), False, "drops image volumes"),
        (Cluster(422, NEW), False, "rejects image volumes"),
        (Cluster(403, NEW), False, "failed: no"),
        (Cluster("keeps", nodes_status=403), False, "failed: no nodes for you"),
    ],
    ids=["kept", "dropped", "invalid", "forbidden", "nodes forbidden"],
)
async def test_the_api_server_is_checked_with_a_dry_run(
    cluster: Cluster, usable: bool, why: str
) -> None:
    async with serving(cluster) as address, KubeClient(Access(address)) as client:
        found = await find(client, "default")

    assert found.usable is usable
    assert why in found.why
    assert cluster.queries[0] == "dryRun=All"


@pytest.mark.parametrize(
    ("refusals", "namespaces", "usable", "asked"),
    [
        (1, [], True, 2),
        (100, [], False, 1 + image_volumes.REFUSED_TRIES),
        (1, ["team"], False, 1),
    ],
    ids=["granted just after the start", "never granted", "of some namespaces"],
)
async def test_only_a_refusal_that_lasts_counts(
    refusals: int,
    namespaces: list[str],
    usable: bool,
    asked: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(image_volumes, "RETRY_SECONDS", 0.0)
    tries = 0

    async def find(*_: object) -> Verdict:
        nonlocal tries
        tries += 1
        refused = tries <= refusals
        return Verdict(why="no nodes" if refused else "", usable=not refused, is_refused=refused)

    monkeypatch.setattr(image_volumes, "find", find)
    async with KubeClient(Access("http://127.0.0.1:9")) as client:
        found = await image_volumes.settled(client, CONFIG, "auto", namespaces)

    assert (found.image_volumes, tries) == (usable, asked)


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("namespaces", [[], ["team"]])
async def test_an_api_server_in_trouble_is_asked_again(
    status: int, namespaces: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_volumes, "RETRY_SECONDS", 0.0)
    cluster = Cluster("keeps", NEW)
    answers = [status] * 10

    async def answer(request: web.Request) -> web.Response:
        if answers:
            return web.json_response({"message": "no"}, status=answers.pop())
        return await cluster(request)

    async with serving(answer) as address, KubeClient(Access(address)) as client:
        found = await image_volumes.settled(client, CONFIG, "auto", namespaces)

    assert found.image_volumes


async def test_an_api_server_that_stays_in_trouble_does_not_stop_the_startup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(image_volumes, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(image_volumes, "UNANSWERED_SECONDS", 0.1)
    cluster = Cluster(500)
    async with serving(cluster) as address, KubeClient(Access(address)) as client:
        found = await image_volumes.settled(client, CONFIG, "auto", [])

    assert not found.image_volumes
    assert len(cluster.queries) > 1
