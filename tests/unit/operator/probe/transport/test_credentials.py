"""How often Secrets are read, however many models, polls and refusals there are."""

import asyncio
from collections.abc import Mapping

import pytest

from moorage_operator.probe.transport import credentials
from moorage_operator.probe.transport.credentials import (
    AGAIN_SECONDS,
    FRESH_SECONDS,
    PREVIOUS_SECONDS,
    READS_A_SECOND,
    ROUTINE_READS_A_SECOND,
    UNUSED_SECONDS,
    Credentials,
)
from moorage_operator.values.plan import Access
from moorage_operator.values.secret_content import Unread


class Reads:
    """One answer for every Secret, the reads, and a clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.found: Mapping[str, bytes] | Unread = {"a": b"first"}
        self.names: list[str] = []
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def read(self, namespace: str, name: str) -> Mapping[str, bytes] | Unread:
        self.names.append(f"{namespace}/{name}")
        self.begun.set()
        await self.gate.wait()
        return self.found

    def made(self) -> Credentials:
        return Credentials(self.read, lambda: self.now)


def access(name: str = "tokens") -> Access:
    return Access("ns", token_secret=name)


async def settled() -> None:
    """Let reads in the background finish."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others)


async def test_without_a_cluster_no_secret_can_be_read() -> None:
    of = Credentials()

    assert await of.tokens(access()) == ("",)
    assert of.missing_token(access()) == "Secret tokens cannot be read without a cluster"


async def test_concurrent_queries_share_a_read() -> None:
    reads = Reads()
    of = reads.made()

    found = await asyncio.gather(*(of.tokens(access()) for _ in range(50)))

    assert set(found) == {("first",)}
    assert reads.names == ["ns/tokens"]


async def test_a_cancelled_query_does_not_cancel_the_read_of_others() -> None:
    reads = Reads()
    reads.gate.clear()
    of = reads.made()
    first = asyncio.create_task(of.tokens(access()))
    other = asyncio.create_task(of.tokens(access()))
    await reads.begun.wait()

    first.cancel()
    reads.gate.set()

    assert await other == ("first",)
    assert reads.names == ["ns/tokens"]


async def test_an_old_secret_is_read_again_in_the_background() -> None:
    reads = Reads()
    of = reads.made()
    await of.tokens(access())

    reads.found = {"a": b"second"}
    reads.now += FRESH_SECONDS
    before = await of.tokens(access())
    await settled()

    assert before == ("first",)
    assert await of.tokens(access()) == ("second", "first")
    reads.now += PREVIOUS_SECONDS
    assert await of.tokens(access()) == ("second",)


async def test_two_thousand_models_cause_a_few_reads_per_second() -> None:
    reads = Reads()
    of = reads.made()
    names = [f"tokens-{number}" for number in range(2000)]
    for name in names:  # without the wait for a turn, which the next test checks
        await of.tokens(access(name))
        reads.now += 1 / READS_A_SECOND
    reads.now += FRESH_SECONDS
    reads.names.clear()

    seconds = 10
    for _ in range(seconds * 20):
        reads.now += 0.05
        await asyncio.gather(*(of.tokens(access(name)) for name in names[:100]))
        await settled()

    assert len(reads.names) <= seconds * ROUTINE_READS_A_SECOND + 1


async def test_first_reads_wait_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "READS_A_SECOND", 1000)
    loop = asyncio.get_running_loop()
    started = loop.time()
    reads = Reads()
    of = Credentials(reads.read, loop.time)

    await asyncio.gather(*(of.tokens(access(str(number))) for number in range(200)))

    assert loop.time() - started >= 0.19


async def test_a_refusal_reads_a_secret_only_if_it_is_old_enough() -> None:
    reads = Reads()
    of = reads.made()
    await of.tokens(access())

    assert await of.more_tokens(access(), ["first"]) == ()
    assert len(reads.names) == 1
    reads.now += AGAIN_SECONDS
    reads.found = {"a": b"second"}
    assert await of.more_tokens(access(), ["first"]) == ("second",)


async def test_refusals_of_many_models_do_not_wait_for_their_turn() -> None:
    reads = Reads()
    of = reads.made()
    names = [str(number) for number in range(200)]
    for name in names:
        await of.tokens(access(name))
        reads.now += 1 / READS_A_SECOND
    reads.now += AGAIN_SECONDS
    reads.names.clear()
    reads.gate.clear()

    tasks = [asyncio.create_task(of.more_tokens(access(name), ["first"])) for name in names]
    done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED, timeout=5)

    assert {task.result() for task in done} == {()}
    assert len(waiting) <= READS_A_SECOND * credentials.BUSY_SECONDS + 1
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await of.close()


async def test_a_failed_read_keeps_the_known_content() -> None:
    reads = Reads()
    of = reads.made()
    await of.tokens(access())

    reads.found = Unread("could not be read: timed out")
    reads.now += AGAIN_SECONDS
    await of.more_tokens(access(), ["first"])

    assert await of.tokens(access()) == ("first",)


async def test_a_revoked_right_ends_the_use_of_the_content_after_a_while() -> None:
    reads = Reads()
    of = reads.made()
    await of.tokens(access())

    reads.found = Unread("may not be read by the operator", "someone")
    reads.now += AGAIN_SECONDS
    await of.more_tokens(access(), ["first"])
    reads.now += PREVIOUS_SECONDS

    assert await of.tokens(access()) == ("",)


async def test_unused_secrets_are_forgotten() -> None:
    reads = Reads()
    of = reads.made()
    await of.tokens(access("old"))

    reads.now += UNUSED_SECONDS + 1
    await of.tokens(access("new"))
    await of.tokens(access("old"))

    assert reads.names == ["ns/old", "ns/new", "ns/old"]


async def test_nothing_shows_a_token() -> None:
    reads = Reads()
    of = reads.made()
    await of.tokens(access())

    assert "first" not in repr(of)
    assert "first" not in of.missing_token(access())
