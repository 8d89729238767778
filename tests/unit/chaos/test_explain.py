"""Which failed requests a fault explains."""

import pytest

from chaos.explain import (
    Failure,
    Happened,
    Span,
    behind,
    explanation,
    outdated,
    restarts_explained,
    windows_of,
)
from chaos.models import MODELS
from chaos.schedule import Fault

END = 400.0
REFUSED = "ClientConnectorError: refused"


def why(name, at, happened, ready, said=REFUSED):
    """What explains a failure at a moment."""
    windows = windows_of(MODELS[name], happened, ready, END)
    return explanation(Failure(name, Span(at, at + 0.1), said), windows)


def fault(kind, at, ended=None, model="", pod=""):
    return Happened(kind, Span(at, at if ended is None else ended), model, pod)


def outage(began, ended, wanted=1, left=0):
    """Endpoints that are ready but for a while."""
    return [(0.0, wanted), (began, left), (ended, wanted)]


ALWAYS = [(0.0, 1)]
PAIR = [(0.0, 2)]


@pytest.mark.parametrize("at", [99.0, 100.5, 104, 131])
def test_a_killed_server_explains_failures_until_it_is_ready_again(at):
    killed = [fault(Fault.SERVER_KILLED, 100, model="calls")]

    said = why("calls", at, killed, outage(103, 130))

    assert said == ("" if at < 99.9 else "server killed")


def test_a_killed_server_explains_nothing_after_its_recovery():
    killed = [fault(Fault.SERVER_KILLED, 100, model="calls")]

    assert why("calls", 140, killed, outage(103, 130)) == ""
    assert why("calls", 140, killed, ALWAYS) == ""


def test_a_server_that_stays_away_is_not_explained_for_ever():
    killed = [fault(Fault.SERVER_KILLED, 100, model="calls")]

    assert why("calls", 300, killed, [(0.0, 1), (103, 0)]) == ""


def test_a_fault_of_another_model_explains_nothing():
    killed = [fault(Fault.SERVER_KILLED, 100, model="greps")]

    assert why("calls", 101, killed, ALWAYS) == ""


@pytest.mark.parametrize(
    "kind", [Fault.OPERATOR_DELETED, Fault.OPERATOR_KILLED, Fault.LEADER_KILLED]
)
def test_a_fault_of_the_operator_explains_nothing(kind):
    happened = [fault(kind, 100, pod="moorage-1")]

    assert why("calls", 101, happened, outage(100, 110)) == ""


def test_an_operator_without_a_network_explains_nothing():
    cut = [fault(Fault.OPERATOR_CUT, 100, 112, pod="moorage-1")]

    assert why("calls", 105, cut, outage(103, 110)) == ""


def test_the_deletion_of_the_only_replica_explains_its_absence_alone():
    deleted = [fault(Fault.POD_DELETED, 100, model="calls")]

    assert why("calls", 105, deleted, outage(100, 110)) == "only replica deleted"
    assert why("calls", 105, deleted, ALWAYS) == ""


def test_the_deletion_of_one_of_two_replicas_explains_nothing():
    deleted = [fault(Fault.POD_DELETED, 100, model="pair")]

    assert why("pair", 105, deleted, outage(100, 110, wanted=2, left=1)) == ""
    assert why("pair", 105, deleted, outage(100, 110, wanted=2, left=0)) == ""


@pytest.mark.parametrize(
    ("name", "said"), [("tensors", "rollout by Recreate"), ("calls", ""), ("greps", "")]
)
def test_an_edit_explains_an_outage_by_recreate_alone(name, said):
    edited = [fault(Fault.EDIT, 100, model=name)]

    assert why(name, 120, edited, outage(115, 125)) == said


def test_pods_replaced_while_the_control_plane_is_away_explain_failures():
    happened = [
        fault(Fault.EDIT, 100, model="pair"),
        fault(Fault.API_SERVER, 105, 112),
    ]

    assert why("pair", 110, happened, PAIR) == "pods replaced under frozen endpoints"
    assert why("pair", 110, happened[1:], PAIR) == ""
    assert why("pair", 150, happened, PAIR) == ""


def test_a_control_plane_that_is_away_prolongs_the_window_of_a_kill():
    killed = fault(Fault.SERVER_KILLED, 100, model="pair")
    away = fault(Fault.ETCD, 95, 108)

    assert why("pair", 118, [killed, away], PAIR) == "server killed"
    assert why("pair", 118, [killed], PAIR) == ""


def test_a_kubelet_that_starts_again_explains_an_outage_alone():
    killed = [fault(Fault.KUBELET, 100, 108)]

    assert why("pair", 109, killed, outage(108, 112, wanted=2)) == "kubelet or containerd killed"
    assert why("pair", 109, killed, outage(108, 112, wanted=2, left=1)) == ""


@pytest.mark.parametrize("said", ["wrong label: 4", "malformed answer: KeyError('outputs')"])
def test_a_wrong_answer_is_never_explained(said):
    killed = [fault(Fault.SERVER_KILLED, 100, model="calls")]

    assert why("calls", 101, killed, outage(100, 110), said) == ""


def test_restarts_are_explained_by_kills_of_the_same_pod_and_silence_of_the_api_server():
    happened = [
        fault(Fault.LEADER_KILLED, 100, pod="moorage-1"),
        fault(Fault.OPERATOR_CUT, 120, 130, pod="moorage-1"),
        fault(Fault.API_SERVER, 140, 150),
        fault(Fault.OPERATOR_DELETED, 160, pod="moorage-2"),
        fault(Fault.SERVER_KILLED, 170, model="calls", pod="calls-1"),
    ]

    assert restarts_explained("moorage-1", happened, operator=True) == 3
    assert restarts_explained("moorage-2", happened, operator=True) == 1
    assert restarts_explained("calls-1", happened, operator=False) == 1
    assert restarts_explained("calls-2", happened, operator=False) == 0


OLD, NEW = frozenset({"10.244.0.5"}), frozenset({"10.244.0.9"})


def spans(offered, routed):
    """When kube-proxy was behind."""
    return [(each.span.began, each.span.ended) for each in behind(offered, routed, END)]


def test_rules_that_follow_in_time_explain_nothing():
    assert spans([(0.0, OLD), (100.0, NEW)], [(0.0, OLD), (102.5, NEW)]) == []


def test_rules_that_follow_late_explain_failures_until_they_do():
    assert spans([(0.0, OLD), (100.0, NEW)], [(0.0, OLD), (130.0, NEW)]) == [(100.0, 130.0)]


def test_several_changes_that_kube_proxy_missed_are_one_window():
    offered = [(0.0, OLD), (100.0, frozenset()), (104.0, NEW)]

    assert spans(offered, [(0.0, OLD), (120.0, NEW)]) == [(100.0, 120.0)]


def test_rules_that_never_follow_explain_failures_to_the_end():
    assert spans([(0.0, OLD), (100.0, NEW)], [(0.0, OLD)]) == [(100.0, END)]


def test_rules_are_not_judged_before_both_are_known():
    assert spans([(50.0, OLD)], [(0.0, NEW), (51.0, OLD)]) == []
    assert spans([(50.0, OLD)], []) == []


def test_an_address_of_an_ended_pod_explains_failures_while_it_is_offered():
    """The replacement of a pod and the EndpointSlice both waited for their controllers."""
    offered = [(0.0, OLD), (130.0, frozenset()), (150.0, NEW)]
    alive = [(0.0, OLD), (100.0, frozenset()), (149.0, NEW)]

    found = outdated(offered, alive, END)

    assert [(each.span.began, each.span.ended) for each in found] == [(100.0, 130.0)]


def test_an_address_that_goes_in_time_explains_nothing():
    assert (
        outdated([(0.0, OLD), (102.0, frozenset())], [(0.0, OLD), (100.0, frozenset())], END) == []
    )


def test_a_pod_that_is_not_offered_yet_explains_nothing():
    assert outdated([(0.0, OLD)], [(0.0, OLD | NEW)], END) == []
