"""The operator on a cluster without models: `make idle` observes it for 15 minutes."""

import json
import os
import time
from pathlib import Path

import pytest

from support.chart_rights import LEASE, operators_kubeconfig
from support.operator_cluster import OperatorProcess, install_runtimes_crd

pytestmark = pytest.mark.integration

SECONDS = float(os.environ.get("IDLE_SECONDS", "0"))
PERIOD_SECONDS = 1.0


@pytest.mark.skipif(not SECONDS, reason="takes a quarter of an hour: run make idle")
@pytest.mark.timeout(SECONDS + 120)
def test_an_idle_operator_stays_live_and_ready(kubeconfig: Path, tmp_path: Path) -> None:
    install_runtimes_crd(kubeconfig)
    operator = OperatorProcess(
        operators_kubeconfig(kubeconfig, tmp_path), tmp_path / "log", options=LEASE
    )
    operator.start()
    failures: list[tuple[float, str, int, str]] = []
    restarts = looks = 0
    try:
        operator.wait_ready()
        began = time.monotonic()
        while (spent := time.monotonic() - began) < SECONDS:
            looks += 1
            for path in ("/livez", "/readyz"):
                code, text = operator.ask(path)
                if code != 200:
                    failures.append((spent, path, code, text))
            if not operator.is_running:
                restarts += 1
                operator.start()
                operator.wait_ready()
            time.sleep(PERIOD_SECONDS)
        requests = operator.metric("moorage_api_requests_total")
    finally:
        operator.stop()
    figures = f"{looks} looks, {restarts} restarts, {requests:.0f} requests"
    print(f"{spent:.0f} s, {figures}")  # noqa: T201 -- what make idle reports

    assert failures == []
    assert restarts == 0
    lines = operator.log.read_text().splitlines()
    levels = {json.loads(line)["level"] for line in lines}
    assert levels <= {"info"}
