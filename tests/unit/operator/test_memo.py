"""What is remembered by identity is right for every argument, and goes with what it is about."""

import gc
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from moorage_operator import memo


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Spec:
    name: str


SPECS = [Spec("a"), Spec("a"), Spec("b")]
VALUES = [{"a": 1}, {"a": 1}, [1], (), "text", "", None, True]


@given(st.lists(st.tuples(st.sampled_from(SPECS), st.sampled_from(VALUES)), max_size=30))
def test_each_call_gets_the_result_of_its_own_arguments(calls: list[tuple[Spec, Any]]) -> None:
    @memo.by_identity
    def paired(first: Spec, *, second: Any) -> tuple[Any, Any]:
        return first, second

    for first, second in calls:
        found = paired(first, second=second)
        assert found[0] is first
        assert found[1] is second


def test_the_same_objects_and_equal_texts_are_computed_once() -> None:
    computed: list[Any] = []

    @memo.by_identity
    def noted(spec: Spec, text: str) -> int:
        computed.append((spec, text))
        return len(computed)

    one, equal = Spec("a"), b"a".decode()
    asked = [(one, "a"), (one, equal), (Spec("a"), "a"), (one, "b")]
    assert [noted(*each) for each in asked] == [1, 1, 2, 3]


def test_functions_and_keywords_are_told_apart() -> None:
    @memo.by_identity
    def named(_: Spec, **given: str) -> dict[str, str]:
        return given

    @memo.by_identity
    def counted(_: Spec, **given: str) -> int:
        return len(given)

    spec = Spec("a")
    assert named(spec, a="x") == {"a": "x"}
    assert named(spec, b="x") == {"b": "x"}
    assert counted(spec, b="x") == 1


def test_results_go_with_the_object_that_they_are_about() -> None:
    @memo.by_identity
    def rendered(spec: Spec) -> Spec:
        return Spec(spec.name * 2)

    spec = Spec("a")
    result = rendered(spec)
    held = gc.get_referrers(result)
    assert any(isinstance(each, tuple) and result in each for each in held)

    del spec, held

    left = [each for each in gc.get_referrers(result) if isinstance(each, tuple)]
    assert left == []


def test_of_many_results_about_one_object_the_oldest_are_let_go() -> None:
    computed: list[object] = []

    @memo.by_identity
    def noted(_: Spec, value: object) -> None:
        computed.append(value)

    spec = Spec("a")
    values = [object() for _ in range(memo.KEPT + 1)]
    for value in (*values, values[-1], values[0]):
        noted(spec, value)

    assert computed == [*values, values[0]]
