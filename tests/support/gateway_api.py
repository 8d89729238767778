"""The Gateway API's own CRDs, from its project's Go module, pinned beside the tests."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage_localcluster.binaries import ClusterError, find_go

MODULE = Path(__file__).resolve().parents[1] / "gateway" / "crds"
GROUP = "gateway.networking.k8s.io"


def crds(*plurals: str) -> list[dict[str, Any]]:
    """The CRDs of these kinds, of the standard channel; without Go the test is skipped."""
    try:
        go = find_go()
    except ClusterError as error:
        pytest.skip(str(error))
    done = subprocess.run(
        [go, "mod", "download", "-json", "sigs.k8s.io/gateway-api"],
        cwd=MODULE,
        capture_output=True,
        text=True,
        check=True,
    )
    folder = Path(json.loads(done.stdout)["Dir"]) / "config" / "crd" / "standard"
    return [yaml.safe_load((folder / f"{GROUP}_{each}.yaml").read_text()) for each in plurals]
