"""Label selectors, as in metav1.LabelSelector; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from .fields import Fields

__all__ = ["LabelSelector", "Operator", "Requirement", "parse_selector"]

REQUIREMENT_LIMIT = 64


class Operator(StrEnum):
    """How the value of a label is compared."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"

    @property
    def has_values(self) -> bool:
        """Whether the comparison needs values."""
        return self in {Operator.IN, Operator.NOT_IN}


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet the condition; NotIn is also met without the label."""
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Conditions that all have to be met; without any, everything matches."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet all conditions."""
        return all(each.matches(labels) for each in self.requirements)


def parse_selector(fields: Fields) -> LabelSelector:
    """Read a selector; record invalid values as problems."""
    equal: list[Requirement] = []
    for key, value in fields.mapping("matchLabels").items():
        if isinstance(value, str):
            equal.append(Requirement(key, Operator.IN, (value,)))
        else:
            fields.reject(f"matchLabels.{key}", value, "a string")
    found = fields.children("matchExpressions", REQUIREMENT_LIMIT, "requirements")
    selector = LabelSelector((*equal, *map(_parse_requirement, found)))
    fields.unknown()
    return selector


def _parse_requirement(fields: Fields) -> Requirement:
    key, values = fields.text("key"), fields.texts("values")
    operator = fields.choice("operator", Operator.IN)
    if not key:
        fields.require("key", "the name of a label")
    if not fields.has("operator"):
        fields.require("operator", f"one of {', '.join(Operator)}")
    elif operator.has_values and not fields.peek("values"):
        fields.require("values", f"a list of at least one value with operator {operator}")
    elif values and not operator.has_values:
        fields.report("values", f"must be absent with operator {operator}; remove it")
    fields.unknown()
    return Requirement(key, operator, values)
