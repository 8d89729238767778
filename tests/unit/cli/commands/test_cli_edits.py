"""The commands that change a field of a model, with conflicts."""

import json

import pytest

from support.cli_cluster import EditedCluster


def test_an_edit_is_decided_again_if_the_model_has_changed(run):
    cluster = EditedCluster(conflicts=2)

    code, out, err = run(cluster, "promote", "iris")

    assert (code, err) == (0, "")
    assert "revision new is promoted" in out
    assert [each["metadata"]["resourceVersion"] for each in cluster.patches] == ["1", "2", "3"]
    assert {each["spec"]["rollout"]["promote"] for each in cluster.patches} == {"new"}


def test_a_repeated_edit_never_names_another_revision(run):
    cluster = EditedCluster(conflicts=1, candidates=("new", "newer"))

    code, out, err = run(cluster, "abort", "iris")

    assert (code, out, len(cluster.patches)) == (1, "", 1)
    assert "revision new is not rolled out: the candidate is newer" in err


def test_an_edit_gives_up_after_some_conflicts(run):
    code, _, err = run(EditedCluster(conflicts=99), "pause", "iris")

    assert code == 1
    assert "has been modified" in err


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["restart", "iris"], "rollout"),
        (["pause", "iris"], "paused"),
        (["abort", "iris", "new"], "rollout"),
        (["promote", "iris", "new/1", "-o", "json"], "rollout"),
    ],
)
def test_each_verb_patches_one_field(run, arguments, field):
    cluster = EditedCluster()

    assert run(cluster, *arguments)[0] == 0

    (patch,) = cluster.patches
    assert list(patch["spec"]) == [field]


def test_a_model_that_is_not_paused_is_not_patched(run):
    cluster = EditedCluster()

    code, out, _ = run(cluster, "resume", "iris")

    assert (code, out, cluster.patches) == (0, "iris: is not paused\n", [])


def test_a_rollback_can_be_printed_without_a_change(run):
    cluster = EditedCluster()

    code, out, _ = run(cluster, "rollback", "iris", "--dry-run")
    assert (code, cluster.patches) == (0, [])
    printed = json.loads(out)
    assert run(EditedCluster(), "rollback", "iris")[0] == 0
    assert run(cluster, "rollback", "iris")[0] == 0

    assert [each["path"] for each in printed] == ["/metadata/resourceVersion", "/spec/model"]
    (patch,) = cluster.patches
    assert patch[1:] == printed[1:]
