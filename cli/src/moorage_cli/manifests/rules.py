"""Evaluates the CRD's CEL rules without an API server; pure.

    CRD --> x-kubernetes-validations --> **rules** --> structural

`celpy` matches regular expressions with RE2, like the API server. Functions of Kubernetes' own CEL
libraries that the CRD uses are defined here. It is imported with the first rule, because that
takes 80 ms and most commands evaluate none.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from celpy import Runner
    from celpy.celtypes import BoolType, StringType
    from celpy.evaluation import CELFunction

__all__ = ["holds"]


def holds(rule: str, value: Any) -> bool:
    """Whether a value satisfies a rule; a rule that cannot be evaluated does not hold.

    Args:
        rule: A CEL expression about `self`.
        value: JSON values, with the CRD's defaults.

    Raises:
        CELParseError: The rule is not a CEL expression.
    """
    from celpy.adapter import json_to_cel  # noqa: PLC0415 - see above
    from celpy.evaluation import CELEvalError  # noqa: PLC0415 - see above

    try:
        return bool(_compiled(rule).evaluate({"self": json_to_cel(value)}))
    except (CELEvalError, ValueError):  # a missing field; an integer above 64 bits
        return False


@cache
def _compiled(rule: str) -> "Runner":
    from celpy import Environment  # noqa: PLC0415 - see above

    environment = Environment()
    functions: dict[str, CELFunction] = {"isSorted": _is_sorted, "substring": _substring}
    return environment.program(environment.compile(rule), functions)


def _is_sorted(items: list[Any]) -> "BoolType":
    """The function of the list library.

    Source: Kubernetes, "Common Expression Language in Kubernetes", list library.
    """
    from celpy.celtypes import BoolType  # noqa: PLC0415 - see above

    return BoolType(list(items) == sorted(items))


def _substring(text: "StringType", start: int) -> "StringType":
    """The function of CEL's extended string library, with one index.

    Source: Kubernetes, "Common Expression Language in Kubernetes", extended strings library.
    """
    from celpy.celtypes import StringType  # noqa: PLC0415 - see above

    if not 0 <= start <= len(text):
        raise ValueError  # the rule does not hold, whatever the index
    return StringType(text[start:])
