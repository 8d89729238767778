"""Label selectors: which labels they match, and a sentence for each invalid value."""

from typing import Any

import pytest

from moorage_operator.api.fields import Fields, Problem
from moorage_operator.api.label_selectors import LabelSelector, parse_selector
from support.spec_sentences import UNKNOWN

TEAM = {"key": "team", "operator": "Exists"}


def read(selector: Any) -> tuple[LabelSelector, list[str]]:
    """A selector, and its problems."""
    found: list[Problem] = []
    parsed = parse_selector(Fields(selector, "selector", found))
    return parsed, [str(problem) for problem in found]


def of(operator: str, *values: str) -> dict[str, Any]:
    """A selector with one requirement."""
    return {"matchExpressions": [{"key": "team", "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "risk", "sales", "none"),
    [
        ({}, True, True, True),
        ({"matchLabels": {"team": "risk"}}, True, False, False),
        ({"matchLabels": {"team": "risk", "stage": "test"}}, False, False, False),
        (of("In", "risk", "sales"), True, True, False),
        (of("NotIn", "risk"), False, True, True),
        (of("Exists"), True, True, False),
        (of("DoesNotExist"), False, False, True),
        ({**of("Exists"), "matchLabels": {"team": "sales"}}, False, True, False),
    ],
)
def test_a_selector_matches_labels_that_meet_all_conditions(
    selector: Any, risk: bool, sales: bool, none: bool
) -> None:
    parsed, problems = read(selector)

    assert problems == []
    assert parsed.matches({"team": "risk", "other": "x"}) is risk
    assert parsed.matches({"team": "sales"}) is sales
    assert parsed.matches({"other": "risk"}) is none


def test_a_selector_has_at_most_64_requirements() -> None:
    assert read({"matchExpressions": [TEAM] * 64})[1] == []
    assert read({"matchExpressions": [TEAM] * 65})[1] == [
        "selector.matchExpressions: has 65 requirements: must have at most 64"
    ]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"matchLabels": {"team": 1}}, "matchLabels.team: 1 is invalid: must be a string"),
        ({"labels": {}}, f"labels: {UNKNOWN}"),
        (
            {"matchExpressions": [{"operator": "Exists"}]},
            "matchExpressions[0].key: is required and must be the name of a label",
        ),
        (
            {"matchExpressions": [TEAM, {"key": "a", "values": ["b"]}]},
            (
                "matchExpressions[1].operator: is required and must be one of In, NotIn, Exists, "
                "DoesNotExist"
            ),
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "Is", "values": ["b"]}]},
            (
                "matchExpressions[0].operator: 'Is' is invalid: must be one of In, NotIn, Exists, "
                "DoesNotExist"
            ),
        ),
        (
            of("NotIn"),
            (
                "matchExpressions[0].values: is required and must be a list of at least one value "
                "with operator NotIn"
            ),
        ),
        (
            of("Exists", "a"),
            "matchExpressions[0].values: must be absent with operator Exists; remove it",
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "In", "values": [1]}]},
            "matchExpressions[0].values: 1 is invalid: must be a list of strings",
        ),
        ({"matchExpressions": [{**TEAM, "value": "a"}]}, f"matchExpressions[0].value: {UNKNOWN}"),
    ],
)
def test_an_invalid_field_is_reported(selector: Any, expected: str) -> None:
    assert read(selector)[1] == [f"selector.{expected}"]
