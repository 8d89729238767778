"""The generated page of the chart's values agrees with what YAML says about them."""

from pathlib import Path

import pytest
import yaml

from moorage_generate.chart_values import Value, page, parse_values

TEXT = (Path(__file__).resolve().parents[2] / "charts" / "moorage" / "values.yaml").read_text()
VALUES = list(parse_values(TEXT))


def lookup(path: str) -> object:
    found = yaml.safe_load(TEXT)
    for key in path.split("."):
        found = found[key]
    return found


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.path)
def test_a_value_has_a_meaning_and_its_default(value: Value) -> None:
    assert value.meaning
    if value.default:
        assert yaml.safe_load(value.default) == lookup(value.path)
    else:
        assert isinstance(lookup(value.path), dict)


def test_every_top_level_value_is_on_the_page() -> None:
    rows = page(VALUES)

    assert [key for key in yaml.safe_load(TEXT) if f"| `{key}` |" not in rows] == []


def test_a_comment_before_a_blank_line_describes_no_key() -> None:
    assert list(
        parse_values("# About the file.\n\n# One.\na:\n  # Two,\n  # long.\n  b: 2\n")
    ) == [
        Value("a", "", "One."),
        Value("a.b", "2", "Two, long."),
    ]


def test_a_line_that_is_no_key_is_named() -> None:
    with pytest.raises(ValueError, match=r"values\.yaml:2: expected `key: value`"):
        list(parse_values("a: 1\n- b\n"))
