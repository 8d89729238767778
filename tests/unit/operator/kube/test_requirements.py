"""Supported versions of Kubernetes."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from moorage_operator.kube.auth import Access
from moorage_operator.kube.client import KubeClient
from moorage_operator.kube.requirements import LEAST, too_old
from support.api_server import serving

CHART = Path(__file__).resolve().parents[4] / "charts" / "moorage" / "Chart.yaml"


@pytest.mark.parametrize(
    ("version", "named"),
    [
        ({"major": "1", "minor": "29", "gitVersion": "v1.29.8"}, "Kubernetes v1.29.8"),
        ({"major": "1", "minor": "29+", "gitVersion": "v1.29.8-eks-1"}, "v1.29.8-eks-1"),
        ({"major": "1", "minor": "9"}, "Kubernetes 1.9"),
        ({"major": "1", "minor": "30"}, ""),
        ({"major": "1", "minor": "34+"}, ""),
        ({"major": "2", "minor": "0"}, ""),
        ({"major": "", "minor": "x"}, ""),
        ({}, ""),
    ],
)
def test_an_outdated_api_server_is_reported_with_the_required_version(
    version: dict[str, Any], named: str
) -> None:
    reason = too_old(version)

    assert bool(reason) == bool(named)
    assert named in reason
    assert not reason or "upgrade the cluster to 1.30 or later" in reason


@pytest.mark.parametrize("code", [403, 404])
async def test_an_api_server_of_unknown_version_is_used(code: int) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"message": "no"}, status=code)

    async with serving(answer) as server, KubeClient(Access(server)) as client:
        assert await client.server_version() == {}


def test_the_chart_requires_the_same_version() -> None:
    assert yaml.safe_load(CHART.read_text())["kubeVersion"] == f">={LEAST[0]}.{LEAST[1]}.0-0"
