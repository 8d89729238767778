"""Which cluster the demo uses: never one that the user did not name."""

import itertools

import pytest

from choice import DemoError, Facts, choose

NOTHING = Facts(
    asked="", context="", context_answers=False, docker_runs=False, kind_installed=False
)


def facts(**found):
    return Facts(**{name: getattr(NOTHING, name) for name in Facts.__slots__} | found)


@pytest.mark.parametrize(
    ("found", "kind", "why"),
    [
        ({}, "local", "Docker is not running"),
        ({"docker_runs": True}, "local", "kind is not installed"),
        ({"kind_installed": True}, "local", "Docker is not running"),
        ({"docker_runs": True, "kind_installed": True}, "kind", "Docker is running"),
        (
            {"asked": "local", "docker_runs": True, "kind_installed": True},
            "local",
            "CLUSTER=local",
        ),
        ({"asked": "kind", "docker_runs": True, "kind_installed": True}, "kind", "CLUSTER=kind"),
        (
            {"asked": "current", "context": "prod", "context_answers": True},
            "current",
            "CLUSTER=current selects context 'prod'",
        ),
    ],
)
def test_the_cluster_follows_from_what_was_asked_and_found(found, kind, why):
    choice = choose(facts(**found))
    assert choice.kind == kind
    assert why in choice.why


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"asked": "minikube"}, "CLUSTER='minikube' is invalid: must be one of current, kind"),
        ({"asked": "current"}, "kubectl has no current context"),
        ({"asked": "current", "context": "prod"}, "context 'prod' does not answer"),
        ({"asked": "kind"}, "Docker is not running"),
        ({"asked": "kind", "docker_runs": True}, "kind is not in PATH"),
    ],
)
def test_what_cannot_be_had_is_said_with_what_to_do(found, said):
    with pytest.raises(DemoError, match=said):
        choose(facts(**found))


def test_an_answering_context_that_nobody_named_is_left_alone_and_mentioned():
    for docker, kind in itertools.product([False, True], repeat=2):
        choice = choose(
            facts(context="prod", context_answers=True, docker_runs=docker, kind_installed=kind)
        )
        assert choice.kind != "current"
        assert "context 'prod', set CLUSTER=current" in choice.why
