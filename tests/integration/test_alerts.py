"""The chart's alerts, checked and evaluated by Prometheus itself."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import prometheus
from support.chart import rendered

pytestmark = pytest.mark.integration

SCRAPED = 'job="moorage-metrics",namespace="moorage-system"'
MODEL = f'model_namespace="a",model_name="iris",{SCRAPED}'
UP = f"moorage_operator_build_info{{{SCRAPED}}}"
EXPIRY = "moorage_model_certificate_expiry_timestamp_seconds"
LATE = f"moorage_poll_late_seconds_bucket{{{SCRAPED}"
# Series by the minute, and the alert that fires after half an hour of it. Prometheus' notation:
# start+stepxcount.
FIRING = {
    "MoorageModelNotReady": {f'moorage_model_ready{{ready="False",{MODEL}}}': "1x60"},
    "MoorageModelUnknown": {f'moorage_model_ready{{ready="Unknown",{MODEL}}}': "1x60"},
    "MoorageRolloutStalled": {f"moorage_model_stalled{{{MODEL}}}": "1x60"},
    "MoorageRouteNotAccepted": {f"moorage_model_route_pending{{{MODEL}}}": "1x60"},
    # the test begins at Unix time 0
    "MoorageCertificateExpiring": {f"{EXPIRY}{{{MODEL}}}": "200000x60"},
    "MoorageOperatorDown": {},
    "MoorageNotLeading": {
        f'moorage_operator_leading{{instance="1",{SCRAPED}}}': "0x60",
        f'moorage_operator_leading{{instance="2",{SCRAPED}}}': "0x60",
    },
    "MoorageOperatorRestarting": {f"process_start_time_seconds{{{SCRAPED}}}": "0+1x60"},
    "MoorageNamespaceNotServed": {
        f'moorage_namespace_served{{watched_namespace="a",instance="1",{SCRAPED}}}': "0x60",
        f'moorage_namespace_served{{watched_namespace="b",instance="1",{SCRAPED}}}': "1x60",
    },
    "MoorageWatchFailing": {
        f'moorage_watch_restarts_total{{reason="failed",resource="pods",{SCRAPED}}}': "0+6x60"
    },
    "MoorageApiErrors": {f'moorage_api_requests_total{{code="500",{SCRAPED}}}': "0+60x60"},
    "MoorageReconcileErrors": {f'moorage_reconciles_total{{outcome="error",{SCRAPED}}}': "0+1x60"},
    "MoorageQueueStuck": {f"moorage_queue_oldest_seconds{{{SCRAPED}}}": "0+60x60"},
    "MooragePollBacklog": {
        f'{LATE},le="1"}}': "0x60",
        f'{LATE},le="10"}}': "0+60x60",
        f'{LATE},le="+Inf"}}': "0+60x60",
    },
}


def named(name: str, ready: str) -> str:
    labels = f'ready="{ready}",model_namespace="a",model_name="{name}",{SCRAPED}'
    return f"moorage_model_ready{{{labels}}}"


QUIET = {
    f'moorage_model_ready{{ready="True",{MODEL}}}': "1x60",
    named("b", "Suspended"): "1x60",
    named("c", "ScaledToZero"): "1x60",
    # not ready for ten minutes, then ready
    named("d", "False"): "1x10 stale",
    f"{EXPIRY}{{{MODEL}}}": "400000x60",
    f'moorage_operator_leading{{instance="1",{SCRAPED}}}': "1x60",
    f'moorage_operator_leading{{instance="2",{SCRAPED}}}': "0x60",
    f"process_start_time_seconds{{{SCRAPED}}}": "1x60",
    f'moorage_namespace_served{{watched_namespace="a",{SCRAPED}}}': "1x60",
    f'moorage_watch_restarts_total{{reason="ended",resource="pods",{SCRAPED}}}': "0+6x60",
    f'moorage_api_requests_total{{code="200",{SCRAPED}}}': "0+600x60",
    f'moorage_reconciles_total{{outcome="retry",{SCRAPED}}}': "0+1x60",
    f"moorage_queue_oldest_seconds{{{SCRAPED}}}": "1x60",
    f'{LATE},le="1"}}': "0+60x60",
    f'{LATE},le="10"}}': "0+60x60",
    f'{LATE},le="+Inf"}}': "0+60x60",
    # another release's operator does not lead
    'moorage_operator_leading{job="other-metrics",namespace="other"}': "0x60",
}


@pytest.fixture(scope="module")
def spec() -> dict[str, Any]:
    """The rules as the chart renders them."""
    objects = rendered("--set", "metrics.prometheusRule.enabled=true")
    return objects["PrometheusRule", "moorage"]["spec"]


def promtool(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = prometheus.find().with_name("promtool")
    return subprocess.run(
        [program, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )


def fired(folder: Path, spec: dict[str, Any], series: dict[str, str]) -> set[str]:
    """The alerts that fire after half an hour of these series."""
    # JSON is YAML
    (folder / "rules.yaml").write_text(json.dumps(spec))
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    case = {"interval": "1m", "input_series": inputs}
    # promtool compares: an expectation that nothing fires makes it name what does
    names = [rule["alert"] for group in spec["groups"] for rule in group["rules"]]
    expected = [{"eval_time": "30m", "alertname": name, "exp_alerts": []} for name in names]
    suite = {"rule_files": ["rules.yaml"], "tests": [{**case, "alert_rule_test": expected}]}
    (folder / "suite.yaml").write_text(json.dumps(suite))
    done = promtool(folder, "test", "rules", "suite.yaml")
    said = done.stdout + done.stderr
    found = set(re.findall(r"alertname: ?(\w+), time", said))
    assert bool(found) == bool(done.returncode), said
    return found


def test_prometheus_accepts_the_rules(spec: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(spec))

    done = promtool(tmp_path, "check", "rules", "rules.yaml")

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(FIRING)} rules found" in done.stdout


@pytest.mark.parametrize("alert", FIRING)
def test_each_alert_fires_for_its_problem(
    alert: str, spec: dict[str, Any], tmp_path: Path
) -> None:
    up = {} if alert == "MoorageOperatorDown" else {UP: "1x60"}

    assert fired(tmp_path, spec, {**up, **FIRING[alert]}) == {alert}


def test_no_alert_fires_for_healthy_or_suspended_models(
    spec: dict[str, Any], tmp_path: Path
) -> None:
    assert fired(tmp_path, spec, {UP: "1x60", **QUIET}) == set()


def test_every_alert_of_the_chart_is_tested(spec: dict[str, Any]) -> None:
    names = {rule["alert"] for group in spec["groups"] for rule in group["rules"]}

    assert names == set(FIRING)


def test_selector_runbook_and_labels_are_configurable() -> None:
    objects = rendered(
        *("--set", "metrics.prometheusRule.enabled=true,metrics.prometheusRule.labels.team=ml"),
        *("--set", 'metrics.prometheusRule.selector=job="own"'),
        *("--set", "metrics.prometheusRule.runbookUrl=https://wiki.example/moorage"),
    )
    rule = objects["PrometheusRule", "moorage"]
    first = rule["spec"]["groups"][0]["rules"][0]

    assert rule["metadata"]["labels"]["team"] == "ml"
    assert 'ready="False",job="own"}' in first["expr"]
    assert (
        first["annotations"]["runbook_url"] == "https://wiki.example/moorage#mooragemodelnotready"
    )


def test_without_the_value_there_is_no_rule() -> None:
    assert "PrometheusRule" not in {kind for kind, _ in rendered()}
