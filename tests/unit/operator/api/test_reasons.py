"""The traits of each reason."""

import pytest

from moorage_operator.api.conditions import Reason
from moorage_operator.api.reasons import TRAITS, Trait, has


def test_every_reason_is_in_the_table() -> None:
    assert set(TRAITS) == set(Reason)


@pytest.mark.parametrize(
    ("reason", "trait", "expected"),
    [
        (Reason.MODEL_LOADING, Trait.TRANSIENT, True),
        (Reason.MODEL_LOAD_FAILED, Trait.TRANSIENT, False),
        ("ModelLoadFailed", Trait.TRANSIENT | Trait.STALLED, True),
        ("OfANewerOperator", Trait.TRANSIENT | Trait.STALLED, False),
    ],
)
def test_a_reason_has_its_traits_and_an_unknown_one_has_none(
    reason: str, trait: Trait, expected: bool
) -> None:
    assert has(reason, trait) is expected


@pytest.mark.parametrize("reason", Reason)
def test_no_transient_reason_is_final(reason: Reason) -> None:
    stays = Trait.STALLED | Trait.ENDED | Trait.FAILURE | Trait.FINAL
    assert not (has(reason, Trait.TRANSIENT) and has(reason, stays))
