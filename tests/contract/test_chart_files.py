"""The chart's dashboard asks for metrics that exist, and its schema knows every value."""

import json
import re
from pathlib import Path

import pytest

from moorage_generate.dashboard import dashboard

ROOT = Path(__file__).resolve().parents[2]
CHARTS = ROOT / "charts"


def test_the_dashboard_asks_for_metrics_that_exist():
    documented: set[str] = set()
    for page in ("metrics-operator.md", "metrics-runtime.md"):
        text = (ROOT / "docs" / "reference" / page).read_text()
        documented |= set(re.findall(r"^\| `(moorage_\w+)`", text, re.MULTILINE))
    expressions = json.dumps(dashboard())
    used = {re.sub(r"_bucket$", "", name) for name in re.findall(r"moorage_\w+", expressions)}

    assert used
    assert used <= documented


@pytest.mark.parametrize("chart", ["moorage", "moorage-runtimes"])
def test_every_value_of_a_chart_is_in_its_schema(chart):
    yaml = pytest.importorskip("yaml")
    values = yaml.safe_load((CHARTS / chart / "values.yaml").read_text())
    schema = json.loads((CHARTS / chart / "values.schema.json").read_text())

    assert set(values) <= set(schema["properties"])
    assert schema["additionalProperties"] is False
