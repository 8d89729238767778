"""What the documents say of the API is what the API is."""

import re
from pathlib import Path

import yaml

from moorage_operator.api.conditions import ConditionType, Reason
from moorage_operator.api.v1alpha1 import parse
from moorage_operator.decide import plan as planning
from moorage_operator.values.observed import Observed
from support.operator_values import CONFIG, NOW

ROOT = Path(__file__).resolve().parents[2]
CONDITIONS = (ROOT / "docs" / "reference" / "conditions.md").read_text()
RESOURCE = (ROOT / "docs" / "reference" / "inferencemodel.md").read_text()
EXAMPLE = (ROOT / "examples" / "inferencemodel.yaml").read_text()
CRD = yaml.safe_load((ROOT / "crds" / "inferencemodels.yaml").read_text())
VERSION = CRD["spec"]["versions"][0]
SPEC = VERSION["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]


def table_rows(text: str) -> list[list[str]]:
    """The cells of every row of every table, without the heads."""
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows if not set(row[0]) <= set("- ")]


def test_every_reason_is_documented_once_with_what_it_means():
    documented = [row for row in table_rows(CONDITIONS) if row[0].startswith("`")]

    reasons = [row[0].strip("`") for row in documented]
    assert sorted(reasons) == sorted(str(reason) for reason in Reason)
    assert all(len(row[2]) > 10 for row in documented)


def test_every_reason_that_is_no_success_says_what_to_do():
    for row in table_rows(CONDITIONS):
        if row[0].startswith("`") and "True" not in row[1]:
            assert len(row[3]) >= 4, row[0]


def test_every_condition_has_its_chapter_in_the_order_of_blame():
    assert re.findall(r"^## (\w+)$", CONDITIONS, re.MULTILINE) == [
        str(type_) for type_ in ConditionType
    ]


def leaves(schema: dict) -> list[str]:
    return list(schema.get("properties", {}))


def test_every_field_of_the_spec_is_documented():
    names = {name for row in table_rows(RESOURCE) for name in re.findall(r"`([\w.]+)`", row[0])}

    for name, schema in SPEC.items():
        below = schema.get("properties", {}) if name != "podTemplate" else {}
        for child in below:
            shown = {
                f"{name}.{child}",
                *(f"{name}.{child}.{leaf}" for leaf in leaves(below[child])),
            }
            assert shown & names
        assert below or name in names


def test_defaults_in_the_document_are_those_of_the_crd():
    rows = {row[0].strip("`"): row[1] for row in table_rows(RESOURCE)}

    parts = {f"health.{name}": part for name, part in SPEC["health"]["properties"].items()}
    parts |= {name: SPEC[name] for name in ("protocol", "transport")}
    for name, part in parts.items():
        assert f"Defaults to {rows[name]}." in " ".join(part["description"].split())
    assert rows["replicas"] == str(SPEC["replicas"]["default"])


def test_documents_wait_for_the_applied_spec_and_not_for_any_revision():
    """Ready is true while an earlier revision serves, even if the rollout has failed."""
    files = [ROOT / "README.md", ROOT / "charts/moorage/templates/NOTES.txt"]
    files += [*ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md"), ROOT / "demo/demo.py"]
    waits = [
        (path.name, line)
        for path in files
        for line in path.read_text().splitlines()
        if "--for=condition=" in line and "inferencemodel/" in line
    ]

    assert len(waits) >= 7
    assert [name for name, line in waits if "condition=Ready" in line] == ["conditions.md"]


def test_columns_are_documented():
    columns = VERSION["additionalPrinterColumns"]
    usual = " ".join(item["name"].upper() for item in columns if not item.get("priority"))
    wide = " ".join(item["name"].upper() for item in columns if item.get("priority"))

    assert f"Columns: `{usual}`, with `-o wide` also `{wide}`." in RESOURCE


def test_the_smallest_example_is_the_one_of_the_readme_and_is_accepted():
    text = EXAMPLE.split("\n", 1)[1]
    parsed = parse(
        {
            **yaml.safe_load(EXAMPLE),
            "metadata": {"name": "iris", "namespace": "default", "uid": "u", "generation": 1},
        }
    )

    assert f"```yaml\n{text}```" in (ROOT / "README.md").read_text()
    assert f"```yaml\n{text}```" in RESOURCE
    assert parsed.problems == ()
    assert planning.plan(parsed, Observed(), now=NOW, config=CONFIG).objects
