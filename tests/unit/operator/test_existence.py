from moorage_operator.existence import KNOWN_SECONDS, Existence


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_model_is_known_for_a_while_after_it_was_seen() -> None:
    clock = Clock()
    existence = Existence(clock)
    assert not existence.is_known("u")

    existence.saw("u")
    clock.now += KNOWN_SECONDS
    assert existence.is_known("u")

    clock.now += 1
    assert not existence.is_known("u")


def test_what_was_not_seen_for_a_while_is_forgotten_and_what_was_seen_again_is_not() -> None:
    clock = Clock()
    existence = Existence(clock)
    for uid in ("a", "b"):
        existence.saw(uid)
    clock.now += KNOWN_SECONDS
    existence.saw("a")
    clock.now += 1

    existence.saw("c")

    assert list(existence._seen) == ["a", "c"]


def test_a_model_that_is_doubted_is_not_known_until_it_is_seen_again() -> None:
    existence = Existence(Clock())
    existence.saw("u")

    existence.doubt("u")
    existence.doubt("never seen")

    assert not existence.is_known("u")
    existence.saw("u")
    assert existence.is_known("u")
