"""Every alert of the chart is explained in the runbook and asks for metrics that exist."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ALERTS = ROOT / "charts" / "moorage" / "files" / "alerts.yaml"
RUNBOOK = (ROOT / "docs" / "reference" / "runbook.md").read_text()
METRICS = (ROOT / "docs" / "reference" / "metrics-operator.md").read_text()
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_leads_to_its_section_of_the_runbook(rule):
    headings = re.findall(r"^## (\w+)$", RUNBOOK, re.MULTILINE)

    assert rule["annotations"]["runbook_url"] == f"RUNBOOK#{rule['alert'].lower()}"
    assert rule["alert"] in headings
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert rule["annotations"]["summary"].endswith(".")


def test_the_runbook_explains_no_alert_that_does_not_exist():
    headings = re.findall(r"^## (Moorage\w+)$", RUNBOOK, re.MULTILINE)

    assert sorted(headings) == sorted(rule["alert"] for rule in RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_documented_series_of_this_release(rule):
    documented = set(re.findall(r"^\| `(moorage_\w+)`", METRICS, re.MULTILINE))
    series = re.findall(r"(\w+)\{([^}]*)\}", rule["expr"])

    assert series
    for name, labels in series:
        known = name == "process_start_time_seconds" or name.removesuffix("_bucket") in documented
        assert known, name
        assert "SELECTOR" in labels
