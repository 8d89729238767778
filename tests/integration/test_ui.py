"""The server of `moorage ui` against a real API server: who may use it, and what it answers."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from support.operator_cluster import Api, Kubelet, OperatorProcess, eventually, model

pytestmark = pytest.mark.integration

MOORAGE = Path(sys.executable).parent / "moorage"
SECONDS = 30


@dataclass(frozen=True)
class Page:
    """A running page and the namespace that it shows."""

    url: str
    api: Api

    @property
    def base(self) -> str:
        return self.url.partition("/#")[0]

    @property
    def headers(self) -> dict[str, str]:
        return {"X-Moorage-Token": urlsplit(self.url).fragment}

    def get(self, path: str, **options: Any) -> httpx.Response:
        return httpx.get(self.base + path, timeout=SECONDS, **options)

    def do(self, command: str, **fields: Any) -> httpx.Response:
        body = {"command": command, "namespace": self.api.namespace, "name": "iris", **fields}
        return httpx.post(f"{self.base}/api/do", json=body, headers=self.headers, timeout=SECONDS)

    def details(self) -> dict[str, Any]:
        query = {"namespace": self.api.namespace, "name": "iris"}
        return self.get("/api/model", params=query, headers=self.headers).json()


@pytest.fixture
def page(operator: OperatorProcess, api: Api, kubelet: Kubelet) -> Iterator[Page]:
    api.apply(model("iris"))
    command = [MOORAGE, "ui", "--no-browser", "--kubeconfig", str(api.kubeconfig)]
    process = subprocess.Popen(
        [*map(str, command), "-n", api.namespace], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield Page(process.stdout.readline().strip(), api)
    finally:
        process.terminate()
        process.communicate(timeout=SECONDS)


def test_only_who_has_the_url_may_read_and_act(page: Page) -> None:
    assert page.get("/").status_code == 200
    assert page.get("/api/models").status_code == 401
    assert page.get("/api/model", headers={"X-Moorage-Token": "x"}).status_code == 401
    rebound = {**page.headers, "Host": "attacker.example"}
    assert page.get("/api/model", headers=rebound).status_code == 403
    refused = page.do("delete")
    assert refused.status_code == 409
    assert "'delete'" in refused.json()["error"]


def test_the_wall_follows_models_that_come_change_and_go(page: Page) -> None:
    seen: dict[str, dict[str, Any]] = {}
    with httpx.stream(
        "GET", f"{page.base}/api/models", headers=page.headers, timeout=SECONDS
    ) as stream:
        lines = (json.loads(line) for line in stream.iter_lines())
        first = next(each for each in lines if each)
        assert [row["name"] for row in first["all"]] == ["iris"]

        page.api.apply(model("second"))
        for each in lines:
            if row := each.get("put"):
                seen[row["name"]] = row
            if "second" in seen and seen["second"]["reason"] != "NotSeenYet":
                break
        page.api.delete("InferenceModel", "second")
        gone = next(each["deleted"] for each in lines if "deleted" in each)

    assert gone == f"{page.api.namespace}/second"
    assert seen["second"]["state"] in {"waiting", "failing"}


def test_a_model_has_its_causes_and_can_be_paused_and_resumed(page: Page) -> None:
    eventually("the operator has written a status", lambda: bool(page.details().get("conditions")))
    found = page.details()
    assert found["causes"]
    assert found["paused"] is False

    assert page.do("pause").json()["ok"] is True
    assert page.details()["paused"] is True
    assert page.do("resume").json()["ok"] is True
    assert page.details()["paused"] is False
