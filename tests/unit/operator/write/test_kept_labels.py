"""Children whose labels admission changed during a write."""

from typing import Any

import pytest

from moorage_operator.api import labels
from moorage_operator.kube import errors
from moorage_operator.write.kept_labels import check_labels

WANTED = labels.child("iris")


def written(**changes: str) -> dict[str, Any]:
    return {"metadata": {"labels": {**WANTED, **changes}}}


@pytest.mark.parametrize(
    "body",
    [written(), written(team="a"), written(**{labels.NAME: "other"})],
    ids=["as planned", "another one added", "one that nothing is found by"],
)
def test_other_labels_may_change(body: dict[str, Any]) -> None:
    check_labels(body, WANTED)


@pytest.mark.parametrize(
    ("body", "label", "found"),
    [
        (written(**{labels.MANAGED_BY: "policy"}), labels.MANAGED_BY, "policy"),
        (written(**{labels.MODEL: "other"}), labels.MODEL, "other"),
        ({"metadata": {"labels": {labels.MANAGED_BY: "moorage"}}}, labels.MODEL, ""),
        ({"metadata": {}}, labels.MANAGED_BY, ""),
        ({"metadata": {"labels": None}}, labels.MANAGED_BY, ""),
    ],
)
def test_a_label_by_which_children_are_found_must_stay(
    body: dict[str, Any], label: str, found: str
) -> None:
    with pytest.raises(errors.Forbidden) as raised:
        check_labels(body, WANTED)

    named = f"admission changed the label {label} from {WANTED[label]!r} to {found!r}: "
    assert raised.value.message.startswith(named)
    assert raised.value.message.endswith(", so exempt them from the policy")
    assert raised.value.code == 403


def test_a_label_that_was_not_planned_must_not_appear() -> None:
    with pytest.raises(errors.Forbidden, match="from '' to 'moorage'"):
        check_labels(written(), {labels.MODEL: "iris"})
