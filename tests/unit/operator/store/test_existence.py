from moorage_operator.store.existence import KNOWN_SECONDS, Existence


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_evidence_is_valid_for_a_while() -> None:
    clock = Clock()
    existence = Existence(clock)
    assert not existence.is_known("u")

    existence.saw("u")
    clock.now += KNOWN_SECONDS
    existence.saw("another")
    assert existence.is_known("u")

    clock.now += 1
    assert not existence.is_known("u")


def test_only_old_evidence_is_removed() -> None:
    clock = Clock()
    existence = Existence(clock)
    for uid in ("a", "b"):
        existence.saw(uid)
    clock.now += KNOWN_SECONDS
    existence.saw("a")
    clock.now += 1

    existence.saw("c")

    assert list(existence._seen) == ["a", "c"]


def test_a_doubted_model_is_unknown_until_new_evidence() -> None:
    existence = Existence(Clock())
    existence.saw("u")

    existence.doubt("u")
    existence.doubt("never seen")

    assert not existence.is_known("u")
    existence.saw("u")
    assert existence.is_known("u")
