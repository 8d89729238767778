"""The operator's reference pages and the chart are what the operator does."""

import re
from pathlib import Path

import yaml
from prometheus_client.core import GaugeMetricFamily

from moorage_operator.kube import kinds
from moorage_operator.process.metrics import Metrics
from moorage_operator.settings import OPTIONS

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = (ROOT / "docs" / "reference" / "operator-settings.md").read_text()
METRICS = (ROOT / "docs" / "reference" / "metrics-operator.md").read_text()
TEMPLATES = ROOT / "charts" / "moorage" / "templates"


def table(text: str, head: str) -> list[list[str]]:
    """The rows of the table with this first column, cell by cell."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith(f"| {head} |"):
            break
    next(lines)  # the rule below the head
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def test_every_setting_is_documented_as_it_is():
    expected = []
    for option in OPTIONS:
        default = f"`{option.default}`" if option.default else "empty"
        default = "required" if option.default is None else default
        expected.append([f"`{option.flag}`", f"`{option.variable}`", default, option.text])

    assert table(SETTINGS, "flag") == expected


def test_every_metric_is_documented_as_it_is():
    expected = {}
    for family in Metrics().registry.collect():
        if family.name.startswith("moorage_"):
            name = family.name + ("_total" if family.type == "counter" else "")
            expected[f"`{name}`"] = [family.type, family.documentation]

    documented = {row[0]: [row[1], row[3]] for row in table(METRICS, "metric")}
    assert documented == expected


def labels_by_metric() -> dict[str, tuple[str, ...]]:
    """The labels of each metric, of those that are read on a scrape too."""
    registry = Metrics().registry
    return {
        name: tuple(getattr(collector, "_labelnames", ()))
        for collector, names in registry._collector_to_names.items()
        for name in names
    } | {
        family.name: tuple(family._labelnames)
        for family in registry.collect()
        if isinstance(family, GaugeMetricFamily)
    }


def test_the_labels_of_every_metric_are_documented():
    labels = labels_by_metric()

    for name, _, documented, _ in table(METRICS, "metric"):
        expected = ", ".join(f"`{each}`" for each in labels[name.strip("`")])
        assert documented == expected, name


def test_one_metric_alone_has_a_series_for_every_model():
    labels = {name: set(found) for name, found in labels_by_metric().items()}

    assert {"model_namespace", "model_name"} <= labels.pop("moorage_model_ready")
    for name in (  # only for some models
        "moorage_model_stalled",
        "moorage_model_paused",
        "moorage_model_route_pending",
        "moorage_model_certificate_expiry_timestamp_seconds",
    ):
        assert {"model_namespace", "model_name"} == labels.pop(name)
    assert not set().union(*labels.values()) & {"model", "model_name", "name", "pod"}


def test_expressions_in_the_documents_name_metrics_that_exist():
    names = {name.strip("`") for name, *_ in table(METRICS, "metric")}
    used = re.findall(r"\bmoorage_\w+", " ".join(row[1] for row in table(METRICS, "sign")))

    assert used
    assert {name.removesuffix("_bucket") for name in used} <= names


def test_the_chart_grants_exactly_the_calls_that_are_made():
    text = (TEMPLATES / "_names.tpl").read_text()
    match = re.search(r'define "moorage\.rules" -}}\n(.*?)\{\{- end', text, re.DOTALL)
    assert match
    granted = {
        (group, resource, verb)
        for rule in yaml.safe_load(match[1])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }

    assert granted == {
        (kind.group, kind.rbac_name, verb) for kind in kinds.ALL for verb in kind.verbs
    }


def test_the_chart_sets_only_variables_that_the_operator_knows():
    text = (TEMPLATES / "deployment.yaml").read_text()
    used = set(re.findall(r"\bMOORAGE_[A-Z_]+", text))

    assert used
    assert used <= {option.variable for option in OPTIONS}
