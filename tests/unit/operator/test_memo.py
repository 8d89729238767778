"""What is remembered by identity is right for every argument, and does not grow."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from moorage_operator import memo

VALUES = [{"a": 1}, {"a": 1}, [1], (), "text", "", None, True]


@given(st.lists(st.tuples(st.sampled_from(VALUES), st.sampled_from(VALUES)), max_size=30))
def test_each_call_gets_the_result_of_its_own_arguments(calls: list[tuple[Any, Any]]) -> None:
    @memo.by_identity
    def paired(first: Any, *, second: Any) -> tuple[Any, Any]:
        return first, second

    for first, second in calls:
        found = paired(first, second=second)
        assert found[0] is first
        assert found[1] is second


def test_the_same_objects_and_equal_texts_are_computed_once() -> None:
    computed: list[Any] = []

    @memo.by_identity
    def noted(value: object, text: str) -> int:
        computed.append((value, text))
        return len(computed)

    one: dict[str, int] = {}
    equal = b"a".decode()
    asked = [(one, "a"), (one, equal), ({}, "a"), (one, "b")]
    assert [noted(*each) for each in asked] == [1, 1, 2, 3]


def test_the_oldest_results_are_let_go() -> None:
    computed: list[object] = []

    @memo.by_identity
    def noted(value: object) -> None:
        computed.append(value)

    values = [object() for _ in range(memo.KEPT + 1)]
    for value in values:
        noted(value)
    noted(values[-1])
    noted(values[0])

    assert computed == [*values, values[0]]


def test_keyword_and_positional_arguments_are_told_apart() -> None:
    @memo.by_identity
    def named(**given: str) -> dict[str, str]:
        return given

    assert named(a="x") == {"a": "x"}
    assert named(b="x") == {"b": "x"}
