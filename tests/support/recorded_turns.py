"""Turns of writes that a test can read."""

from contextlib import AbstractAsyncContextManager

from moorage_operator.write.turns import Turns


class RecordedTurns(Turns):
    """Records who asked for a turn."""

    def __init__(self, places: int) -> None:
        super().__init__(places)
        self.asked: list[tuple[str, str, bool]] = []

    def turn(
        self, namespace: str, kind: str, *, is_new: bool
    ) -> AbstractAsyncContextManager[None]:
        self.asked.append((namespace, kind, is_new))
        return super().turn(namespace, kind, is_new=is_new)
