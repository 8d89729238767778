"""The tool's defaults of a model are those of the operator."""

from moorage_cli.edit.rollback import OPERATOR_DEFAULTS
from support.operator_values import model


def test_the_defaults_without_an_inference_runtime_are_the_operators():
    of = model()
    health = OPERATOR_DEFAULTS["health"]

    assert OPERATOR_DEFAULTS["protocol"] == of.protocol
    assert OPERATOR_DEFAULTS["transport"] == of.transport
    ports = OPERATOR_DEFAULTS["runtime"]["ports"]
    assert (ports["http"], ports["grpc"]) == (of.runtime.ports.http, of.runtime.ports.grpc)
    assert list(health.values()) == [
        of.health.startup_timeout_seconds,
        of.health.period_seconds,
        of.health.timeout_seconds,
        of.health.failure_threshold,
        of.health.poll_interval_seconds,
        of.health.termination_grace_period_seconds,
        of.health.readiness_target,
    ]
