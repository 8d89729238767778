"""What the chart carries is what its sources make, and asks for metrics that exist."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHARTS = ROOT / "charts"


def script(name: str):
    spec = importlib.util.spec_from_file_location(name, CHARTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_crd_of_the_chart_is_the_crd():
    copy = script("copy_crds")

    assert copy.COPY.read_text() == copy.template(copy.SOURCE.read_text()), "make crds"


def test_the_dashboard_is_what_its_script_makes():
    made = script("make_dashboard")

    assert json.loads(made.TARGET.read_text()) == made.dashboard(), "make crds"


def test_the_dashboard_asks_for_metrics_that_exist():
    documented: set[str] = set()
    for page in ("metrics-operator.md", "metrics-runtime.md"):
        text = (ROOT / "docs" / "reference" / page).read_text()
        documented |= set(re.findall(r"^\| `(moorage_\w+)`", text, re.MULTILINE))
    expressions = json.dumps(script("make_dashboard").dashboard())
    used = {re.sub(r"_bucket$", "", name) for name in re.findall(r"moorage_\w+", expressions)}

    assert used
    assert used <= documented


def test_every_value_of_the_chart_is_in_its_schema():
    yaml = pytest.importorskip("yaml")
    values = yaml.safe_load((CHARTS / "moorage" / "values.yaml").read_text())
    schema = json.loads((CHARTS / "moorage" / "values.schema.json").read_text())

    assert set(values) <= set(schema["properties"])
    assert schema["additionalProperties"] is False
