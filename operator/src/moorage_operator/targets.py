"""From a model and its replicas to what is polled, and by which protocol; pure.

    plan --> targets --> probe.poller

A target of a declared protocol carries the other ways too, so that a wrong declaration can be
answered with what the server speaks instead; a target of `Auto` has nothing but them.
"""

from collections.abc import Sequence

from .api.v1alpha1 import InferenceModel, Protocol, Transport
from .config import OperatorConfig
from .memo import by_identity
from .planned import ProbeTarget, Way
from .replicas import Replica
from .resources import endpoints
from .smoke import SmokeTask, SmokeVerdict

__all__ = ["make_targets"]


def make_targets(
    model: InferenceModel, replicas: Sequence[Replica], config: OperatorConfig
) -> tuple[ProbeTarget, ...]:
    """The running containers of this spec, by pod name."""
    running = [
        replica
        for replica in replicas
        if replica.current and replica.pod.ip and replica.pod.runtime.running_since
    ]
    if not running:
        return ()
    own = _way(model, config, model.protocol, model.transport)
    others = _others(model, config)
    # The bundled runtime is online by itself; other GRPS servers wait to be told.
    may_start_offline = not endpoints.is_bundled(model, config) and model.protocol in {
        Protocol.GRPS,
        Protocol.AUTO,
    }
    explained_by = _explained_by(model, config)
    return tuple(
        ProbeTarget(
            pod_uid=replica.pod.uid,
            container_id=replica.pod.runtime.container_id,
            address=replica.pod.ip,
            port=own.port,
            protocol=own.protocol,
            transport=own.transport,
            model_name=model.model.name,
            model_version=model.model.version,
            live_path=own.live_path,
            ready_path=own.ready_path,
            model_ready_path=own.model_ready_path,
            metadata_path=own.metadata_path,
            server_path=own.server_path,
            timeout_seconds=float(model.health.timeout_seconds),
            infer_path=own.infer_path,
            infer_model=own.infer_model,
            bring_online=may_start_offline,
            others=() if _is_settled(model, replica) else others,
            explained_by=explained_by,
            smoke=_smoke_task(model, replica),
            vouched=replica.model_ready and replica.result is None,
        )
        for replica in running
    )


def _explained_by(model: InferenceModel, config: OperatorConfig) -> Way | None:
    """GRPS says that a server is not ready, and not why; the bundled runtime says it elsewhere."""
    if model.protocol is not Protocol.GRPS or not endpoints.is_bundled(model, config):
        return None
    return _way(model, config, Protocol.OPEN_INFERENCE, model.transport)


def _is_settled(model: InferenceModel, replica: Replica) -> bool:
    """Whether its server has answered as declared, so that nobody looks for another protocol.

    Should it come to answer otherwise, the next plan's target has the other ways again.
    """
    return replica.model_ready and model.protocol is not Protocol.AUTO


def _smoke_task(model: InferenceModel, replica: Replica) -> SmokeTask | None:
    if not model.smoke_tests:
        return None
    done = replica.trial is not None and replica.trial.verdict is SmokeVerdict.PASSED
    return SmokeTask(model.smoke_digest, model.smoke_tests, done=done)


@by_identity
def _others(model: InferenceModel, config: OperatorConfig) -> tuple[Way, ...]:
    """Every way but the spec's own, those over the spec's transport first."""
    found = [
        (protocol, transport)
        for protocol in Protocol
        if protocol is not Protocol.AUTO
        for transport in endpoints.transports(protocol)
        if (protocol, transport) != (model.protocol, model.transport)
    ]
    found.sort(key=lambda way: way[1] is not model.transport)
    return tuple(_way(model, config, protocol, transport) for protocol, transport in found)


@by_identity
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
