"""Builds the poll targets of a model's replicas; pure.

    plan --> **poll_targets** --> probe.schedule.poller

A target with a declared protocol also has the other protocols and transports, so that the operator
can detect what the server speaks instead. A target of `Auto` has only those.
"""

from collections.abc import Sequence

from moorage_operator.api import names
from moorage_operator.api.config import OperatorConfig
from moorage_operator.api.v1alpha1 import InferenceModel, Protocol, Transport
from moorage_operator.resources import endpoints
from moorage_operator.values.plan import Access, ProbeTarget, Way
from moorage_operator.values.smoke import SmokeTask, SmokeVerdict

from .replicas import Replica

__all__ = ["make_targets"]


def make_targets(
    model: InferenceModel, replicas: Sequence[Replica], config: OperatorConfig
) -> tuple[ProbeTarget, ...]:
    """Return a target for each running container of this spec, by pod name."""
    running = [
        replica
        for replica in replicas
        if replica.current and replica.pod.ip and replica.pod.runtime.running_since
    ]
    if not running:
        return ()
    own = _way(model, config, model.protocol, model.transport)
    others = _others(model, config)
    # The bundled runtime starts online; other GRPS servers must be set online.
    may_start_offline = not endpoints.is_bundled(model, config) and model.protocol in {
        Protocol.GRPS,
        Protocol.AUTO,
    }
    explained_by = _explained_by(model, config)
    access = _access(model)
    return tuple(
        ProbeTarget(
            pod_uid=replica.pod.uid,
            container_id=replica.pod.runtime.container_id,
            address=replica.pod.ip,
            way=own,
            model_name=model.model.name,
            model_version=model.model.version,
            timeout_seconds=float(model.health.timeout_seconds),
            bring_online=may_start_offline,
            others=() if _is_settled(model, replica) else others,
            explained_by=explained_by,
            smoke=_smoke_task(model, replica),
            vouched=replica.model_ready and replica.result is None,
            own_path=endpoints.asks_own_path(model),
            access=access,
        )
        for replica in running
    )


def _access(model: InferenceModel) -> Access | None:
    """Return how the servers are secured; None for plaintext without tokens."""
    if not model.tls and not model.access.token_secret_name:
        return None
    own = f"{names.service(model.name)}.{model.namespace}.svc"
    return Access(
        model.namespace,
        tls_secret=model.tls.secret_name,
        server_name=model.tls.server_name or own if model.tls else "",
        token_secret=model.access.token_secret_name,
    )


def _explained_by(model: InferenceModel, config: OperatorConfig) -> Way | None:
    """Return where the bundled runtime explains why it is not ready, which GRPS does not."""
    if model.protocol is not Protocol.GRPS or not endpoints.is_bundled(model, config):
        return None
    return _way(model, config, Protocol.OPEN_INFERENCE, model.transport)


def _is_settled(model: InferenceModel, replica: Replica) -> bool:
    """Whether the server has answered as declared, so that detection is not needed.

    If it later answers differently, the next plan's target allows detection again.
    """
    return replica.model_ready and model.protocol is not Protocol.AUTO


def _smoke_task(model: InferenceModel, replica: Replica) -> SmokeTask | None:
    if not model.smoke_tests.tests:
        return None
    done = replica.trial is not None and replica.trial.verdict is SmokeVerdict.PASSED
    return SmokeTask(model.smoke_digest, model.smoke_tests.tests, done=done)


def _others(model: InferenceModel, config: OperatorConfig) -> tuple[Way, ...]:
    """Return all ways except the spec's own, those over the spec's transport first.

    None is never detected, and nothing is detected for a spec with None.
    """
    if model.protocol is Protocol.NONE:
        return ()
    found = [
        (protocol, transport)
        for protocol in Protocol
        if protocol not in {Protocol.AUTO, Protocol.NONE}
        for transport in endpoints.transports(protocol)
        if (protocol, transport) != (model.protocol, model.transport)
    ]
    found.sort(key=lambda way: way[1] is not model.transport)
    return tuple(_way(model, config, protocol, transport) for protocol, transport in found)


def _way(
    model: InferenceModel, config: OperatorConfig, protocol: Protocol, transport: Transport
) -> Way:
    ports = model.runtime.ports
    named = endpoints.infer_model(model, config, protocol)
    if transport is Transport.GRPC:
        return Way(str(protocol), str(transport), ports.grpc, infer_model=named)
    paths = endpoints.paths(model, protocol)
    return Way(
        str(protocol),
        str(transport),
        ports.http,
        live_path=paths.live,
        ready_path=paths.ready,
        model_ready_path=paths.model_ready,
        metadata_path=paths.metadata,
        server_path=paths.server,
        infer_path=endpoints.infer_path(model, protocol),
        infer_model=named,
    )
