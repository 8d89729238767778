"""The chart's Grafana dashboard, made from a table of panels.

Panels differ only in title, unit and expression. In a thousand lines of hand-written JSON, nobody
would see a mistake.
"""

import json
from pathlib import Path
from typing import Any

TARGET = "charts/moorage/files/dashboard.json"
WIDTH, HEIGHT, COLUMNS = 8, 8, 3
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def files(_root: Path) -> dict[str, str]:
    """The dashboard."""
    return {TARGET: json.dumps(dashboard(), indent=1) + "\n"}


def rate(counter: str, by: str) -> tuple[str, str]:
    """The rate of a counter by labels, and its legend."""
    return f"sum by ({by}) (rate({counter}[5m]))", _legend(by)


def slowest(histogram: str, by: str) -> tuple[str, str]:
    """The 99th percentile of a histogram by a label, and its legend."""
    labels = f"le, {by}" if by else "le"
    buckets = f"sum by ({labels}) (rate({histogram}_bucket[5m]))"
    return f"histogram_quantile(0.99, {buckets})", _legend(by)


def _legend(by: str) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in by.split(", ")) if by else "all"


# (title, unit, expressions with their legends)
PANELS: list[tuple[str, str, list[tuple[str, str]]]] = [
    ("Models by Ready", "short", [("sum by (ready) (moorage_models)", "{{ready}}")]),
    ("Polled replicas", "short", [("sum(moorage_poll_targets)", "replicas")]),
    ("Leaders", "short", [("sum(moorage_operator_leading)", "leaders")]),
    ("Polls by result", "reqps", [rate("moorage_polls_total", "result")]),
    ("Poll duration, p99", "s", [slowest("moorage_poll_seconds", "transport")]),
    ("Reconciles by outcome", "ops", [rate("moorage_reconciles_total", "outcome")]),
    ("Reconcile duration, p99", "s", [slowest("moorage_reconcile_seconds", "")]),
    ("Oldest item in the queue", "s", [("max(moorage_queue_oldest_seconds)", "oldest")]),
    (
        "Writes of children and statuses",
        "wps",
        [rate("moorage_child_writes_total", "kind"), rate("moorage_status_writes_total", "")],
    ),
    ("API requests by status code", "reqps", [rate("moorage_api_requests_total", "code")]),
    ("Smoke tests by result", "ops", [rate("moorage_smoke_runs_total", "result")]),
    ("Smoke test duration per container, p99", "s", [slowest("moorage_smoke_seconds", "")]),
    ("Inferences", "reqps", [rate("moorage_inferences_total", "model, outcome")]),
    (
        "Inferences in flight",
        "short",
        [("sum by (model) (moorage_inferences_in_flight)", "{{model}}")],
    ),
    ("Inference duration, p99", "s", [slowest("moorage_inference_seconds", "model")]),
]


def panel(number: int, title: str, unit: str, queries: list[tuple[str, str]]) -> dict[str, Any]:
    """One time series at its position in the grid."""
    row, column = divmod(number, COLUMNS)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": title,
        "datasource": SOURCE,
        "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(65 + i), "datasource": SOURCE, "expr": expr, "legendFormat": legend}
            for i, (expr, legend) in enumerate(queries)
        ],
    }


def dashboard() -> dict[str, Any]:
    """The whole dashboard."""
    choice = {"name": "datasource", "type": "datasource", "query": "prometheus"}
    return {
        "uid": "moorage",
        "title": "Moorage",
        "tags": ["moorage"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [choice]},
        "panels": [panel(number, *row) for number, row in enumerate(PANELS)],
    }
