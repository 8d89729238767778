"""Every reason is produced by a test from a real cause: which one, and that it exists.

A reason that a user meets and that no test has ever seen from a real API server, kubelet or model
server may never come, or come for something else.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

from moorage_operator.conditions import Reason

TESTS = Path(__file__).resolve().parents[1]
REASONS, SMOKE = "integration/test_reasons.py", "integration/test_smoke_tests.py"
PROTOCOLS, TROUBLE = "integration/test_protocols.py", "integration/test_trouble.py"
ROLLOUTS, SCALING = "integration/test_rollouts.py", "integration/test_scaling.py"
CANARY = "integration/test_canary.py"
CAUSES, LIFECYCLE = "e2e/test_causes.py", "e2e/test_lifecycle.py"

# Reason to file and function.
PRODUCED_BY = {
    Reason.VALID: (REASONS, "test_a_spec_that_no_schema_can_refuse_is_refused_by_the_operator"),
    Reason.INVALID_SPEC: (
        REASONS,
        "test_a_spec_that_no_schema_can_refuse_is_refused_by_the_operator",
    ),
    Reason.INVALID_POD_TEMPLATE: (
        TROUBLE,
        "test_a_pod_template_that_the_api_server_refuses_is_named_and_forgotten",
    ),
    Reason.UNSUPPORTED_SCHEME: (REASONS, "test_a_scheme_that_is_not_served_is_named"),
    Reason.FORBIDDEN_BY_QUOTA: (CAUSES, "test_a_quota_that_forbids_the_pods"),
    Reason.NAME_CONFLICT: (TROUBLE, "test_an_object_of_somebody_else_is_not_taken_over"),
    Reason.APPLY_REFUSED: (REASONS, "test_an_admission_policy_that_refuses_a_child_is_named"),
    Reason.MINIMUM_REPLICAS_AVAILABLE: (
        REASONS,
        "test_a_suspended_model_says_so_until_it_is_resumed",
    ),
    Reason.PENDING: (
        TROUBLE,
        "test_a_missing_config_map_is_named_and_forgotten_once_it_is_there",
    ),
    Reason.UNSCHEDULABLE: (CAUSES, "test_more_than_any_node_has"),
    Reason.IMAGE_PULL_BACK_OFF: (CAUSES, "test_an_image_that_does_not_exist"),
    Reason.INVALID_IMAGE_NAME: (CAUSES, "test_an_image_name_that_is_none"),
    Reason.CREATE_CONTAINER_CONFIG_ERROR: (CAUSES, "test_a_command_that_does_not_exist"),
    Reason.SECRET_NOT_FOUND: (CAUSES, "test_a_secret_that_is_missing"),
    Reason.VOLUME_MOUNT_FAILED: (CAUSES, "test_a_config_map_that_is_missing"),
    Reason.ARTIFACT_DOWNLOAD_FAILED: (
        REASONS,
        "test_a_model_that_cannot_be_fetched_is_named_with_the_fetchers_words",
    ),
    Reason.CRASH_LOOP_BACK_OFF: (CAUSES, "test_a_command_that_exits"),
    Reason.OOM_KILLED: (CAUSES, "test_more_memory_than_the_limit"),
    Reason.STARTUP_TIMEOUT: (CAUSES, "test_a_model_that_is_not_ready_in_time"),
    Reason.LIVENESS_FAILING: (CAUSES, "test_a_server_that_stops_to_live"),
    Reason.POD_NOT_READY: (
        REASONS,
        "test_a_kubelet_that_does_not_find_it_ready_is_blamed_and_not_the_model",
    ),
    Reason.SUSPENDED: (REASONS, "test_a_suspended_model_says_so_until_it_is_resumed"),
    Reason.SCALED_TO_ZERO: (
        LIFECYCLE,
        "test_scaling_by_the_scale_subresource_changes_replicas_and_summary",
    ),
    Reason.PROTOCOL_ANSWERED: (REASONS, "test_a_port_on_which_nobody_listens_is_named"),
    Reason.PROTOCOL_MISMATCH: (
        PROTOCOLS,
        "test_a_wrong_declaration_is_answered_with_what_to_write",
    ),
    Reason.NO_PROTOCOL_ANSWERED: (
        PROTOCOLS,
        "test_a_server_that_speaks_nothing_known_is_told_so",
    ),
    Reason.AWAITING_ANSWER: (REASONS, "test_before_anybody_answers_that_is_what_is_said"),
    Reason.ALL_REPLICAS_READY: (REASONS, "test_a_suspended_model_says_so_until_it_is_resumed"),
    Reason.SERVER_NOT_LIVE: (REASONS, "test_a_port_on_which_nobody_listens_is_named"),
    Reason.SERVER_READY_MODEL_NOT: (
        PROTOCOLS,
        "test_a_pod_whose_kubelet_is_blind_is_ready_when_the_operator_says_so",
    ),
    Reason.MODEL_NOT_FOUND: (CAUSES, "test_a_model_name_that_the_server_does_not_have"),
    Reason.MODEL_LOADING: (PROTOCOLS, "test_tensorflow_serving_is_believed_by_its_states"),
    Reason.MODEL_LOAD_FAILED: (CAUSES, "test_a_model_that_does_not_load"),
    Reason.VERSION_NOT_SERVED: (CAUSES, "test_a_version_that_the_server_does_not_have"),
    Reason.PROBE_TIMEOUT: (
        REASONS,
        "test_a_server_that_hangs_is_told_from_one_that_says_no",
    ),
    Reason.MATCHED: (PROTOCOLS, "test_a_contract_is_compared_with_what_the_replica_tells"),
    Reason.INPUT_MISSING: (REASONS, "test_a_difference_to_the_contract_has_its_reason"),
    Reason.OUTPUT_MISSING: (REASONS, "test_a_difference_to_the_contract_has_its_reason"),
    Reason.DATATYPE_MISMATCH: (
        PROTOCOLS,
        "test_an_enforced_contract_keeps_a_replica_out_of_the_service",
    ),
    Reason.SHAPE_MISMATCH: (REASONS, "test_a_difference_to_the_contract_has_its_reason"),
    Reason.REPLICAS_DISAGREE: (REASONS, "test_replicas_with_different_tensors_disagree"),
    Reason.METADATA_UNSUPPORTED: (
        REASONS,
        "test_a_server_without_metadata_cannot_keep_a_contract",
    ),
    Reason.AWAITING_METADATA: (REASONS, "test_metadata_that_has_not_come_yet_is_waited_for"),
    Reason.PASSED: (SMOKE, "test_the_bundled_runtime_passes_in_every_protocol"),
    Reason.OUTPUT_MISMATCH: (SMOKE, "test_a_wrong_answer_is_named_in_every_protocol"),
    Reason.LATENCY_EXCEEDED: (SMOKE, "test_a_slow_answer_exceeds_its_bound"),
    Reason.REQUEST_REJECTED: (SMOKE, "test_a_refused_request_has_the_servers_words"),
    Reason.RUNNING: (SMOKE, "test_tests_that_run_are_waited_for"),
    Reason.SERVING: (SMOKE, "test_the_bundled_runtime_passes_in_every_protocol"),
    Reason.SERVING_PREVIOUS_REVISION: (
        REASONS,
        "test_an_earlier_revision_serves_while_the_new_one_comes_up",
    ),
    Reason.ROLLOUT_COMPLETE: (
        REASONS,
        "test_an_earlier_revision_serves_while_the_new_one_comes_up",
    ),
    Reason.ROLLING_OUT: (
        REASONS,
        "test_an_earlier_revision_serves_while_the_new_one_comes_up",
    ),
    Reason.ROLLED_BACK: (ROLLOUTS, "test_a_model_that_does_not_load_is_rolled_back_and_stays_so"),
    Reason.ROLLOUT_PAUSED: (
        ROLLOUTS,
        "test_a_paused_rollout_leaves_both_and_goes_on_when_asked",
    ),
    Reason.OPERATOR_UPDATE_PENDING: (
        ROLLOUTS,
        "test_another_version_of_the_operator_restarts_no_pod_until_it_is_asked_to",
    ),
    Reason.AWAITING_APPROVAL: (
        CANARY,
        "test_steps_go_on_by_time_and_by_approval_whatever_happens_to_the_operator",
    ),
    Reason.GATEWAY_ACCEPTED: (
        CANARY,
        "test_without_the_gateway_api_it_is_blue_green_until_that_is_installed",
    ),
    Reason.AWAITING_GATEWAY: (
        CANARY,
        "test_without_the_gateway_api_it_is_blue_green_until_that_is_installed",
    ),
    Reason.GATEWAY_REFUSED: (CANARY, "test_a_refused_route_is_told_and_holds_the_canary"),
    Reason.GATEWAY_API_MISSING: (
        CANARY,
        "test_without_the_gateway_api_it_is_blue_green_until_that_is_installed",
    ),
    Reason.AUTOSCALER_ACTIVE: (
        SCALING,
        "test_a_kind_that_is_installed_later_is_used_and_left_when_it_goes",
    ),
    Reason.AWAITING_AUTOSCALER: (
        SCALING,
        "test_a_kind_that_is_installed_later_is_used_and_left_when_it_goes",
    ),
    Reason.AUTOSCALER_MISSING: (
        SCALING,
        "test_a_kind_that_is_installed_later_is_used_and_left_when_it_goes",
    ),
    Reason.AUTOSCALER_FAILING: (
        SCALING,
        "test_an_autoscaler_scales_the_model_and_nobody_fights_it",
    ),
    Reason.PROGRESS_DEADLINE_EXCEEDED: (
        REASONS,
        "test_a_first_rollout_past_its_deadline_is_told_so",
    ),
}


@cache
def functions(file: str) -> dict[str, str]:
    """Each test of a file, its parameters and the functions that it calls among them, as text."""
    text = (TESTS / file).read_text()
    found = {
        node.name: ast.unparse(node)
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
    }
    called = {
        name: "".join(other for each, other in found.items() if f"{each}(" in body)
        for name, body in found.items()
    }
    return {name: body + called[name] for name, body in found.items() if name.startswith("test_")}


def test_every_reason_has_a_test():
    assert set(Reason) == set(PRODUCED_BY)


@pytest.mark.parametrize("reason", PRODUCED_BY, ids=str)
def test_the_test_of_a_reason_exists_and_names_it(reason):
    file, test = PRODUCED_BY[reason]

    assert test in functions(file), f"{file} has no {test}"
    assert f"'{reason}'" in functions(file)[test]
