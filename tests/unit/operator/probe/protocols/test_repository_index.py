import json
from typing import Any

import pytest

from moorage_operator.probe.protocols.repository_index import (
    IndexEntry,
    entries_from_json,
    verdict,
)
from moorage_operator.values.answers import AnswerReason
from support.probe_targets import target

READY = IndexEntry("iris", "1", "READY")
WORDS = "Internal: FileNotFoundError: weights.bin is not there\n\nAt:\n  model.py(9): initialize\n"
BROKEN = IndexEntry("iris", "1", "UNAVAILABLE", WORDS)

UNAVAILABLE = IndexEntry("iris", "1", "UNAVAILABLE")
UNKNOWN = IndexEntry("iris", "", "UNKNOWN")
TAKEN_OUT = IndexEntry("iris", "1", "UNAVAILABLE", "unloaded")
OTHER = "the server has versions 1 of model 'iris'"
LISTED = "the server lists it as UNAVAILABLE"
ABSENT = "the server lists it as absent"
TEN = [IndexEntry(str(number)) for number in range(10)]
ONE_LINE = "Internal: FileNotFoundError: weights.bin is not there At: model.py(9): initialize"
A_AND_B = [IndexEntry("b"), IndexEntry("a")]
SECOND = IndexEntry("iris", "2", "READY")

ASKED: list[tuple[str, list[IndexEntry], str, AnswerReason | None, str]] = [
    ("nothing", [], "", AnswerReason.MODEL_NOT_FOUND, "it has none"),
    ("others", A_AND_B, "", AnswerReason.MODEL_NOT_FOUND, "it has a, b"),
    ("ten others", TEN, "", AnswerReason.MODEL_NOT_FOUND, "it has 0, 1, 2, 3, 4, 5, 6, 7, 8, 9"),
    ("eleven others", [*TEN, *A_AND_B[1:]], "", AnswerReason.MODEL_NOT_FOUND,
     "it has 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 1 more"),
    ("broken", [BROKEN], "", AnswerReason.LOAD_FAILED, ONE_LINE),
    ("loading", [IndexEntry("iris", "1", "LOADING")], "", AnswerReason.LOADING, ""),
    ("reloading", [BROKEN, IndexEntry("iris", "2", "LOADING")], "", AnswerReason.LOADING, ""),
    ("ready", [READY], "", None, ""),
    ("MLServer over gRPC", [IndexEntry("iris", "1", "State.READY")], "", None, ""),
    ("one of two is ready", [BROKEN, SECOND], "", None, ""),
    ("the other is ready", [BROKEN, SECOND], "1", AnswerReason.LOAD_FAILED, ONE_LINE),
    ("another version", [READY], "7", AnswerReason.VERSION_NOT_FOUND, OTHER),
    ("no version yet", [IndexEntry("iris", "", "LOADING")], "7", AnswerReason.LOADING, ""),
    ("unavailable, not why", [UNAVAILABLE], "", AnswerReason.NOT_READY, LISTED),
    ("taken out", [TAKEN_OUT], "", AnswerReason.NOT_READY, LISTED),
    ("without a state", [IndexEntry("iris")], "", AnswerReason.NOT_READY, ABSENT),
    ("MLServer loads it", [UNKNOWN], "", AnswerReason.NOT_READY, "the server lists it as UNKNOWN"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("entries", "version", "reason", "said"),
    [row[1:] for row in ASKED],
    ids=[row[0] for row in ASKED],
)
def test_the_index_explains_why_a_model_is_not_ready(
    entries: list[IndexEntry], version: str, reason: AnswerReason | None, said: str
) -> None:
    answer = verdict(target(model_version=version), entries)

    assert (answer.reason if answer else None) == reason
    if answer:
        assert answer.verdict is False
        assert answer.message == said
        missing = {AnswerReason.MODEL_NOT_FOUND, AnswerReason.VERSION_NOT_FOUND}
        assert answer.listed is (reason in missing)


def test_of_many_models_the_first_ten_are_named() -> None:
    answer = verdict(target(), [IndexEntry(f"m{number:02}") for number in range(12)])

    assert answer is not None
    assert answer.message.endswith("m08, m09 and 2 more")


@pytest.mark.parametrize(
    "document",
    [{}, {"models": []}, [1], [{"name": 1}], [{"version": "1"}], [{"name": "x" * 300}], "text"],
)
def test_a_document_that_is_no_index_is_ignored(document: Any) -> None:
    assert entries_from_json(json.dumps(document).encode()) is None


@pytest.mark.parametrize("body", [b"", b"<html>", b'["\x80"]', b"[" * 100_000])
def test_a_body_that_is_not_json_is_ignored(body: bytes) -> None:
    assert entries_from_json(body) is None


def test_every_field_of_an_entry_is_read() -> None:
    body = b'[{"name":"iris","version":"1","state":"UNAVAILABLE","reason":"no such file"}]'

    assert entries_from_json(body) == (IndexEntry("iris", "1", "UNAVAILABLE", "no such file"),)


def test_an_entry_only_needs_a_name() -> None:
    found = entries_from_json(b'[{"name":"iris","reason":null},{"name":"wine","state":"READY"}]')

    assert found == (IndexEntry("iris"), IndexEntry("wine", "", "READY"))
