"""Every reason is produced by a test from a real cause: which one, and that it exists.

A reason that a user meets and that no test has ever seen from a real API server, kubelet or model
server may never come, or come for something else.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

from moorage_operator.api.conditions import Reason

TESTS = Path(__file__).resolve().parents[1]
REASONS, SMOKE = "integration/test_reasons.py", "integration/test_smoke_tests.py"
PROTOCOLS, TROUBLE = "integration/test_protocols.py", "integration/test_trouble.py"
ROLLOUTS, SCALING = "integration/test_rollouts.py", "integration/test_scaling.py"
CANARY, WHAT_RUNS = "integration/test_canary.py", "integration/test_what_runs.py"
REFUSED, VERBS = "integration/test_refused_children.py", "integration/test_verbs.py"
RUNTIMES, INGRESS = "integration/test_runtimes.py", "integration/test_ingress.py"
SECURED, READ_RIGHTS = "integration/test_secured.py", "integration/test_read_rights.py"
CAUSES, LIFECYCLE = "e2e/test_causes.py", "e2e/test_lifecycle.py"

# Reason to file and function.
PRODUCED_BY = {
    Reason.VALID: (REASONS, "test_the_operator_rejects_a_spec_that_passes_the_schema"),
    Reason.INVALID_SPEC: (
        REASONS,
        "test_the_operator_rejects_a_spec_that_passes_the_schema",
    ),
    Reason.INVALID_POD_TEMPLATE: (
        TROUBLE,
        "test_a_refused_pod_template_is_reported_until_it_is_corrected",
    ),
    Reason.UNSUPPORTED_SCHEME: (REASONS, "test_an_unsupported_scheme_is_reported"),
    Reason.READ_FORBIDDEN: (
        READ_RIGHTS,
        "test_a_model_waits_for_its_runtime_until_the_right_is_granted",
    ),
    Reason.RUNTIME_NOT_FOUND: (
        RUNTIMES,
        "test_a_model_without_its_runtime_is_told_and_goes_on_serving",
    ),
    Reason.NO_RUNTIME_FOR_FORMAT: (
        RUNTIMES,
        "test_a_model_without_its_runtime_is_told_and_goes_on_serving",
    ),
    Reason.RUNTIME_NOT_ALLOWED: (
        RUNTIMES,
        "test_a_namespace_that_is_not_allowed_is_allowed_once_it_has_the_label",
    ),
    Reason.RUNTIME_AMBIGUOUS: (
        RUNTIMES,
        "test_a_format_selects_the_runtime_with_the_highest_priority",
    ),
    Reason.RUNTIME_INVALID: (RUNTIMES, "test_an_invalid_runtime_is_reported_by_the_model"),
    Reason.SEVERAL_DEFAULTS: (RUNTIMES, "test_a_new_default_applies_to_new_models_only"),
    Reason.AWAITING_MODEL: (
        RUNTIMES,
        "test_a_model_that_fails_with_an_edited_runtime_holds_the_others_until_it_is_paused",
    ),
    Reason.RUNTIME_CHANGED: (RUNTIMES, "test_an_edited_runtime_changes_a_model_at_its_next_edit"),
    Reason.FORBIDDEN_BY_QUOTA: (CAUSES, "test_a_quota_that_forbids_the_pods"),
    Reason.NAME_CONFLICT: (TROUBLE, "test_an_object_with_another_owner_is_not_taken_over"),
    Reason.AWAITING_DELETION: (
        WHAT_RUNS,
        "test_a_recreated_model_waits_for_the_deletion_of_former_children",
    ),
    Reason.APPLY_REFUSED: (REASONS, "test_a_child_refused_by_an_admission_policy_is_reported"),
    Reason.APPLY_FAILED: (REFUSED, "test_a_hanging_webhook_does_not_stop_other_writes"),
    Reason.MINIMUM_REPLICAS_AVAILABLE: (
        REASONS,
        "test_a_suspended_model_is_reported_until_it_is_resumed",
    ),
    Reason.PENDING: (
        TROUBLE,
        "test_a_missing_config_map_is_reported_until_it_exists",
    ),
    Reason.UNSCHEDULABLE: (CAUSES, "test_more_than_any_node_has"),
    Reason.IMAGE_PULL_BACK_OFF: (CAUSES, "test_an_image_that_does_not_exist"),
    Reason.INVALID_IMAGE_NAME: (CAUSES, "test_an_invalid_image_name"),
    Reason.CREATE_CONTAINER_CONFIG_ERROR: (CAUSES, "test_a_command_that_does_not_exist"),
    Reason.SECRET_NOT_FOUND: (CAUSES, "test_a_secret_that_is_missing"),
    Reason.VOLUME_MOUNT_FAILED: (CAUSES, "test_a_config_map_that_is_missing"),
    Reason.ARTIFACT_DOWNLOAD_FAILED: (
        REASONS,
        "test_a_failed_download_is_reported_with_its_message",
    ),
    Reason.CRASH_LOOP_BACK_OFF: (CAUSES, "test_a_command_that_exits"),
    Reason.OOM_KILLED: (CAUSES, "test_more_memory_than_the_limit"),
    Reason.STARTUP_TIMEOUT: (CAUSES, "test_a_model_that_exceeds_its_startup_timeout"),
    Reason.LIVENESS_FAILING: (CAUSES, "test_a_server_that_stops_being_live"),
    Reason.POD_NOT_READY: (
        REASONS,
        "test_a_failing_readiness_probe_is_reported_as_the_cause",
    ),
    Reason.SUSPENDED: (REASONS, "test_a_suspended_model_is_reported_until_it_is_resumed"),
    Reason.SCALED_TO_ZERO: (
        LIFECYCLE,
        "test_scaling_by_the_scale_subresource_changes_replicas_and_summary",
    ),
    Reason.PROTOCOL_ANSWERED: (REASONS, "test_a_closed_port_is_reported"),
    Reason.PROTOCOL_MISMATCH: (
        PROTOCOLS,
        "test_a_wrong_protocol_is_reported_with_the_fields_to_change",
    ),
    Reason.NO_PROTOCOL_ANSWERED: (
        PROTOCOLS,
        "test_an_unknown_protocol_is_reported",
    ),
    Reason.AWAITING_ANSWER: (REASONS, "test_before_the_first_answer_the_protocol_is_unknown"),
    Reason.ALL_REPLICAS_READY: (REASONS, "test_a_suspended_model_is_reported_until_it_is_resumed"),
    Reason.SERVER_NOT_LIVE: (REASONS, "test_a_closed_port_is_reported"),
    Reason.SERVER_READY_MODEL_NOT: (
        PROTOCOLS,
        "test_a_gated_pod_becomes_ready_when_the_operator_opens_its_gate",
    ),
    Reason.MODEL_NOT_FOUND: (CAUSES, "test_a_model_name_that_the_server_does_not_have"),
    Reason.MODEL_LOADING: (PROTOCOLS, "test_tensorflow_serving_is_judged_by_its_states"),
    Reason.MODEL_LOAD_FAILED: (CAUSES, "test_a_model_that_does_not_load"),
    Reason.VERSION_NOT_SERVED: (CAUSES, "test_a_version_that_the_server_does_not_have"),
    Reason.PROBE_TIMEOUT: (
        REASONS,
        "test_a_hanging_server_is_distinguished_from_one_that_is_not_ready",
    ),
    Reason.CERTIFICATE_NOT_TRUSTED: (
        SECURED,
        "test_the_commands_in_the_message_let_the_operator_verify_a_private_ca",
    ),
    Reason.TLS_MISMATCH: (SECURED, "test_tls_on_one_side_only_is_reported"),
    Reason.UNAUTHORIZED: (SECURED, "test_a_protocol_without_open_paths_needs_the_token"),
    Reason.METADATA_UNAUTHORIZED: (
        SECURED,
        "test_a_model_is_ready_without_the_right_to_read_its_token_and_says_what_is_not_checked",
    ),
    Reason.REQUEST_UNAUTHORIZED: (
        SECURED,
        "test_a_model_is_ready_without_the_right_to_read_its_token_and_says_what_is_not_checked",
    ),
    Reason.MATCHED: (PROTOCOLS, "test_a_contract_is_compared_with_the_metadata"),
    Reason.INPUT_MISSING: (REASONS, "test_a_difference_from_the_contract_has_its_reason"),
    Reason.OUTPUT_MISSING: (REASONS, "test_a_difference_from_the_contract_has_its_reason"),
    Reason.DATATYPE_MISMATCH: (
        PROTOCOLS,
        "test_an_enforced_contract_keeps_a_replica_out_of_the_service",
    ),
    Reason.SHAPE_MISMATCH: (REASONS, "test_a_difference_from_the_contract_has_its_reason"),
    Reason.REPLICAS_DISAGREE: (REASONS, "test_replicas_with_different_tensors_disagree"),
    Reason.METADATA_UNSUPPORTED: (
        REASONS,
        "test_a_server_without_metadata_cannot_keep_a_contract",
    ),
    Reason.AWAITING_METADATA: (REASONS, "test_missing_metadata_is_awaited"),
    Reason.PASSED: (SMOKE, "test_the_bundled_runtime_passes_smoke_tests_in_every_protocol"),
    Reason.OUTPUT_MISMATCH: (SMOKE, "test_a_wrong_answer_is_reported_in_every_protocol"),
    Reason.LATENCY_EXCEEDED: (SMOKE, "test_a_slow_answer_exceeds_its_limit"),
    Reason.REQUEST_REJECTED: (SMOKE, "test_a_rejected_request_has_the_servers_message"),
    Reason.RUNNING: (SMOKE, "test_running_tests_are_awaited"),
    Reason.SERVING: (SMOKE, "test_the_bundled_runtime_passes_smoke_tests_in_every_protocol"),
    Reason.SERVING_PREVIOUS_REVISION: (
        REASONS,
        "test_an_earlier_revision_serves_while_the_new_one_starts",
    ),
    Reason.OPERATOR_CUT_OFF: (
        WHAT_RUNS,
        "test_silence_of_most_models_is_an_outage_of_the_operator",
    ),
    Reason.DELETING: (
        WHAT_RUNS,
        "test_a_model_that_finalizers_keep_says_that_it_is_being_deleted",
    ),
    Reason.ROLLOUT_COMPLETE: (
        REASONS,
        "test_an_earlier_revision_serves_while_the_new_one_starts",
    ),
    Reason.ROLLING_OUT: (
        REASONS,
        "test_an_earlier_revision_serves_while_the_new_one_starts",
    ),
    Reason.ROLLED_BACK: (ROLLOUTS, "test_a_model_that_does_not_load_stays_rolled_back"),
    Reason.ROLLOUT_PAUSED: (
        ROLLOUTS,
        "test_a_paused_rollout_keeps_both_revisions_and_can_be_retried",
    ),
    Reason.OPERATOR_UPDATE_PENDING: (
        ROLLOUTS,
        "test_an_operator_upgrade_restarts_no_pod_until_requested",
    ),
    Reason.ROLLOUT_ABORTED: (
        VERBS,
        "test_an_aborted_rollout_returns_and_stays_until_abort_is_removed",
    ),
    Reason.PAUSED: (VERBS, "test_nothing_is_written_to_the_children_of_a_paused_model"),
    Reason.AWAITING_APPROVAL: (
        CANARY,
        "test_a_canary_advances_across_restarts_of_the_operator",
    ),
    Reason.GATEWAY_ACCEPTED: (
        CANARY,
        "test_without_the_gateway_api_a_canary_behaves_like_blue_green",
    ),
    Reason.AWAITING_GATEWAY: (
        CANARY,
        "test_without_the_gateway_api_a_canary_behaves_like_blue_green",
    ),
    Reason.GATEWAY_REFUSED: (CANARY, "test_a_refused_route_is_reported_and_holds_the_canary"),
    Reason.GATEWAY_API_MISSING: (
        CANARY,
        "test_without_the_gateway_api_a_canary_behaves_like_blue_green",
    ),
    Reason.INGRESS_READY: (INGRESS, "test_an_ingress_exposes_the_model_while_it_has_an_address"),
    Reason.AWAITING_INGRESS: (
        INGRESS,
        "test_an_ingress_exposes_the_model_while_it_has_an_address",
    ),
    Reason.AUTOSCALER_ACTIVE: (
        SCALING,
        "test_an_optional_kind_is_used_while_it_is_installed",
    ),
    Reason.AWAITING_AUTOSCALER: (
        SCALING,
        "test_an_optional_kind_is_used_while_it_is_installed",
    ),
    Reason.AUTOSCALER_MISSING: (
        SCALING,
        "test_an_optional_kind_is_used_while_it_is_installed",
    ),
    Reason.AUTOSCALER_FAILING: (
        SCALING,
        "test_an_autoscaler_scales_the_model_without_conflicts",
    ),
    Reason.PROGRESS_DEADLINE_EXCEEDED: (
        REASONS,
        "test_a_first_rollout_past_its_deadline_is_reported",
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
