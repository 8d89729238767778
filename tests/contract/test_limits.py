"""The page of limits states what the CRD, the operator and the runtime enforce."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage_operator.api.json_tests import BODY_LIMIT_BYTES
from moorage_runtime.settings.table import SETTINGS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "limits.md").read_text()
CRD = yaml.safe_load((ROOT / "crds" / "inferencemodels.yaml").read_text())
SPEC = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
ROW = re.compile(r"^\| [^|]+ \| ([\d,]+) \| (`[^|]+`) \|$", re.MULTILINE)
KEYWORDS = ("maxItems", "maxLength", "maximum")
ROWS = [
    (name, int(number.replace(",", "")))
    for number, names in ROW.findall(PAGE)
    for name in re.findall(r"`([^`]+)`", names)
]
FIELDS = [row for row in ROWS if not row[0].startswith("MOORAGE_")]
VARIABLES = [row for row in ROWS if row[0].startswith("MOORAGE_")]


def field(path: str) -> dict[str, Any]:
    """The schema of a field of the spec, such as `a.b[].c`."""
    schema = SPEC
    for name in path.split("."):
        schema = schema["properties"][name.removesuffix("[]")]
        if name.endswith("[]"):
            schema = schema["items"]
    return schema


@pytest.mark.parametrize(("path", "limit"), FIELDS)
def test_a_limit_of_the_resource_is_that_of_the_crd(path, limit):
    assert limit in [field(path)[keyword] for keyword in KEYWORDS if keyword in field(path)]


@pytest.mark.parametrize(("variable", "default"), VARIABLES)
def test_a_limit_of_the_runtime_is_the_default_of_its_setting(variable, default):
    (setting,) = [each for each in SETTINGS if each.variable == variable]

    assert setting.default == str(default)


def test_the_page_has_rows_of_both_kinds():
    assert len(FIELDS) > 20
    assert len(VARIABLES) == 5


def test_the_size_of_a_test_in_json_is_documented():
    assert f"{BODY_LIMIT_BYTES >> 10} KiB" in PAGE
