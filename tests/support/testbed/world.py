"""Starts and ends the shared parts of a suite, from the control plane to the servers."""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

from .api import Api, Endpoint, Refused, endpoint_of, until
from .gateways import ROUTES, Gateways
from .kubelets import Kubelets
from .servers import Servers

ROOT = Path(__file__).resolve().parents[3]
CLUSTER = ROOT / "localcluster" / "cluster"
OWN = {"InferenceModel": "inferencemodels", "InferenceRuntime": "inferenceruntimes"}
SCALED = "ScaledObject"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True)
class World:
    """The environment of histories.

    Attributes:
        api: The administrator's API.
        servers: The model servers.
        kubeconfig: The administrator's kubeconfig.
        endpoint: The same, for proxies.
        folder: For logs and kubeconfigs; removed at the end.
        optional: The installed kinds of other projects: KEDA's and the Gateway API's.
    """

    api: Api
    servers: Servers
    kubeconfig: Path
    endpoint: Endpoint
    folder: Path
    optional: frozenset[str]


@contextlib.asynccontextmanager
async def world() -> AsyncIterator[World]:
    """A whole world; ends with everything in it."""
    folder = Path(tempfile.mkdtemp(prefix="moorage-testbed-"))
    plane = folder / "plane"
    try:
        await asyncio.to_thread(_control_plane, "up", plane)
        kubeconfig = plane / "kubeconfig"
        endpoint = endpoint_of(kubeconfig)
        async with Api(endpoint) as api:
            optional = await _install(api)
            async with Servers() as servers, Kubelets(api), _gateways(api, optional):
                yield World(api, servers, kubeconfig, endpoint, folder, optional)
    finally:
        await asyncio.to_thread(_control_plane, "down", plane)
        if not os.environ.get("KEEP_TESTBED"):
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.asynccontextmanager
async def _gateways(api: Api, optional: frozenset[str]) -> AsyncIterator[None]:
    if not optional.issuperset(ROUTES):
        yield
        return
    async with Gateways(api):
        yield


async def _install(api: Api) -> frozenset[str]:
    """Install the CRDs; returns the kinds of other projects, which come with Go modules."""
    for kind, plural in OWN.items():
        definition = yaml.safe_load((ROOT / "crds" / f"{plural}.yaml").read_text())
        await api.call("POST", CRDS, definition)
        await until(partial(_serves, api, kind), 30, "the CRD is served")
    if shutil.which("go") is None:
        return frozenset()
    from support import gateway_api, keda  # noqa: PLC0415 -- need Go, which a machine may lack

    optional = frozenset({*ROUTES, SCALED})
    definitions = [
        *gateway_api.crds("httproutes", "grpcroutes"),
        keda.kind("scaledobjects.keda.sh"),
    ]
    for each in definitions:
        await api.call("POST", CRDS, json.loads(json.dumps(each, default=str)))
    for kind in optional:
        await until(partial(_serves, api, kind), 30, f"{kind} is served")
    return optional


async def _serves(api: Api, kind: str) -> bool:
    try:
        await api.list(kind, "" if kind == "InferenceRuntime" else "default")
    except Refused:
        return False
    return True


def _control_plane(verb: str, folder: Path) -> None:
    command = [sys.executable, CLUSTER, "control-plane", verb, "--dir", folder]
    if verb == "up":
        command.append("--controllers")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
    if done.returncode:
        raise RuntimeError(f"control-plane {verb}: {done.stdout}{done.stderr}")
