"""wait and rollout while the conditions of a model change."""

import json

import pytest

from support.cli_cluster import MODEL, EditedCluster


def waited(*conditions):
    items = [
        {"type": type_, "status": status, "reason": reason, "observedGeneration": 1,
         "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for type_, status, reason in conditions
    ]  # fmt: skip
    return {**MODEL, "status": {**MODEL["status"], "conditions": items}}


ROLLING = waited(("Ready", "True", "ServingPreviousRevision"), ("UpToDate", "False", "RollingOut"))


BROKEN = waited(
    ("ModelReady", "False", "ModelLoadFailed"),
    ("Ready", "False", "ModelLoadFailed"),
    ("UpToDate", "False", "RollingOut"),
    ("Stalled", "True", "ModelLoadFailed"),
)


BACK = waited(("Ready", "True", "ServingPreviousRevision"), ("UpToDate", "False", "RolledBack"))


DONE = waited(("Ready", "True", "Serving"), ("UpToDate", "True", "RolloutComplete"))


@pytest.mark.parametrize(
    ("follow", "expected", "fact"),
    [
        ((ROLLING, DONE, BACK), 0, "is ready: Serving"),
        ((ROLLING, BACK, DONE), 3, "RolledBack"),
        ((BROKEN, DONE), 3, "Cause: ModelLoadFailed"),
        ((ROLLING,), 1, "not up to date and ready within 7 seconds"),
    ],
)
def test_wait_ends_with_the_outcome_of_the_rollout(run, follow, expected, fact):
    code, out, err = run(EditedCluster(follow=follow), "wait", "iris", "--timeout", "7")

    assert (code, err) == (expected, "")
    assert fact in out


@pytest.mark.parametrize(
    ("follow", "expected", "lines", "fact"),
    [
        ((ROLLING, ROLLING, DONE), 0, ["RollingOut:", "Serving:"], ""),
        ((ROLLING, BACK, DONE), 3, ["RollingOut:", "RolledBack:"], "Note: RolledBack"),
        ((ROLLING,), 1, ["RollingOut:"], "not up to date and ready within 7 seconds"),
    ],
)
def test_a_rollout_has_a_line_for_each_change_and_the_exit_status_of_wait(
    run, follow, expected, lines, fact
):
    options = ("rollout", "iris", "--watch", "--timeout", "7")

    code, out, err = run(EditedCluster(follow=follow), *options)

    changes, _, end = out.partition("\n\n")
    assert (code, err) == (expected, "")
    assert changes.splitlines() == [f"iris: {each}" for each in lines]
    assert fact in end


def test_a_rollout_as_json_has_a_document_for_each_change(run):
    cluster = EditedCluster(follow=(ROLLING, ROLLING, BACK, DONE))

    code, out, _ = run(cluster, "rollout", "iris", "--watch", "--timeout", "7", "-o", "json")

    documents, decoder = [], json.JSONDecoder()
    while out.strip():
        document, end = decoder.raw_decode(out.lstrip())
        documents.append(document["outcome"])
        out = out.lstrip()[end:]
    assert (code, documents) == (3, ["pending", "failed"])


def test_a_rollout_without_watch_prints_the_tree_with_the_kept_revisions(run):
    code, out, _ = run(EditedCluster(), "rollout", "iris")

    assert code == 1
    assert [line.split()[1:3] for line in out.splitlines() if "─" in line] == [
        ["new", "candidate"], ["old", "last"]
    ]  # fmt: skip
