"""Puts the runtime together and keeps it running until it is told to end.

Settings -> registry, loader, dataplane, frontends, listeners -> signal -> drain -> end
"""

import asyncio
import contextlib
import importlib.metadata
import logging
import signal
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry

from moorage_runtime import cores
from moorage_runtime.backends.base import Backend
from moorage_runtime.backends.extra import ExtraBackend
from moorage_runtime.backends.onnx import OnnxBackend
from moorage_runtime.backends.python import PythonBackend
from moorage_runtime.dataplane import Dataplane
from moorage_runtime.errors import ListenError
from moorage_runtime.frontends import grps_grpc, grps_rest, health_grpc, oip_grpc
from moorage_runtime.frontends.credentials import Certificate, Token
from moorage_runtime.frontends.custom_http import CustomHttpFrontend
from moorage_runtime.frontends.grpc.methods import GrpcService
from moorage_runtime.frontends.grpc.transport import GrpcListener, Listening, make_listener
from moorage_runtime.frontends.grps_page import GrpsPage
from moorage_runtime.frontends.http.limits import Limits
from moorage_runtime.frontends.http.message import Handler
from moorage_runtime.frontends.http.router import Mount, Router
from moorage_runtime.frontends.http.server import HttpServer
from moorage_runtime.frontends.metrics_http import MetricsFrontend
from moorage_runtime.frontends.oip_rest import OipRestFrontend
from moorage_runtime.frontends.repository_rest import RepositoryRestFrontend
from moorage_runtime.frontends.tfs_rest import TfsRestFrontend
from moorage_runtime.inference import ServerMetadata
from moorage_runtime.metrics import InferenceMetrics, new_registry
from moorage_runtime.repository.loader import Loader, LoaderOptions
from moorage_runtime.repository.registry import Registry
from moorage_runtime.settings import Settings
from moorage_runtime.workers.collected import Collected
from moorage_runtime.workers.link import connect
from moorage_runtime.workers.member import Member
from moorage_runtime.workers.messages import Begin

log = logging.getLogger(__name__)

NAME: Final = "moorage"
# How soon changed files of secrets are taken.
REFRESH_SECONDS: Final = 2.0


async def run(settings: Settings, link: int | None = None) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        settings: What to serve and how.
        link: Descriptor of the wire to a supervisor, of which this process is a worker.

    Raises:
        InvalidConfig: A certificate or token file cannot be used.
        ListenError: A port is taken or not allowed.
    """
    stop = _stop_signals()
    supervisor = None if link is None else await connect(link)
    if supervisor is not None:
        settings = _as_told(settings, supervisor.begin)
    prometheus = new_registry()
    metrics = InferenceMetrics(prometheus)
    registry = Registry()
    registry.watch(lambda: metrics.set_ready(_ready_versions(registry)))
    registry.watch(lambda: metrics.set_in_flight(_in_flight(registry)))
    loader = Loader(_loader_options(settings), registry, _backends(), metrics.loaded, metrics.ran)
    dataplane = Dataplane(
        registry,
        loader,
        server=_server_metadata(settings),
        metrics=metrics,
        default_model=settings.default_model,
        online=not settings.start_offline,
        others=supervisor,
    )
    member = None if supervisor is None else Member(supervisor, dataplane, prometheus)
    certificate, token = _credentials(settings)
    figures = prometheus if supervisor is None else Collected(supervisor)
    http = _http_server(settings, dataplane, figures, certificate, token)
    listening = Listening(
        host=settings.host,
        port=settings.grpc_port,
        max_message_bytes=settings.max_request_bytes,
        certificate=certificate,
        authorize=None if token is None else token.authorize,
        reuse_port=supervisor is not None,
    )
    services = _grpc_services(settings, dataplane)
    grpc = make_listener(settings.grpc_transport, services, listening)
    background = [loader.run(), _refresh(certificate, token)]
    if member is not None:
        background.append(member.run())
    tasks = [asyncio.create_task(work) for work in background]
    for task in tasks:
        task.add_done_callback(_log_failure)
    if member is not None:
        catching_up = asyncio.create_task(member.catch_up())
        await asyncio.wait((catching_up, stop), return_when=asyncio.FIRST_COMPLETED)
    http_port = await _listen(http, "http_port", settings.http_port)
    grpc_port = await _listen(grpc, "grpc_port", settings.grpc_port)
    log.info("listening on HTTP port %d and gRPC port %d", http_port, grpc_port)
    if member is not None:
        member.listens()
    received = await stop
    await _drain(settings, received, dataplane, http, grpc)
    for task in tasks:
        task.cancel()
    loader.close()
    log.info("ended")


async def _drain(
    settings: Settings,
    received: signal.Signals,
    dataplane: Dataplane,
    http: HttpServer,
    grpc: GrpcListener,
) -> None:
    """Readiness is false at once; running requests finish; then the ports close (C-021)."""
    dataplane.drain()
    http.leave()
    # who pressed Ctrl-C has no load balancer that needs time
    delay = 0.0 if received is signal.SIGINT else settings.drain_seconds
    log.info("%s: not ready from now on, closing the ports in %g s", received.name, delay)
    await asyncio.sleep(delay)
    await asyncio.gather(
        http.stop(settings.shutdown_grace_seconds), grpc.stop(settings.shutdown_grace_seconds)
    )


def _as_told(settings: Settings, begin: Begin) -> Settings:
    """The settings of a worker: the supervisor's ports, and its share of the cores."""
    workers = settings.workers or cores.usable()
    offline = settings.start_offline if begin.is_online is None else not begin.is_online
    return msgspec.structs.replace(
        settings,
        http_port=begin.http_port,
        grpc_port=begin.grpc_port,
        threads=settings.threads or max(1, cores.usable() // workers),
        start_offline=offline,
    )


def _server_metadata(settings: Settings) -> ServerMetadata:
    """Only extensions that work are listed (R0-041)."""
    extensions = ["binary_tensor_data"]
    if settings.repository_control:
        extensions.append("model_repository")
    return ServerMetadata(NAME, importlib.metadata.version("moorage-runtime"), tuple(extensions))


def _stop_signals() -> "asyncio.Future[signal.Signals]":
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[signal.Signals] = loop.create_future()

    def settle(received: signal.Signals) -> None:
        # a second signal changes nothing: the grace time bounds the end anyhow
        if not stop.done():
            stop.set_result(received)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, settle, number)
    return stop


def _loader_options(settings: Settings) -> LoaderOptions:
    return LoaderOptions(
        settings.model_repository,
        settings.model_name,
        threads=settings.threads or cores.usable(),
        waiting=settings.queue_size,
        poll_seconds=settings.poll_seconds,
        latest_versions=settings.latest_versions,
    )


def _backends() -> Mapping[str, Backend]:
    package = "moorage_runtime.backends"
    return {
        "onnx": OnnxBackend(),
        "python": PythonBackend(),
        "torchscript": ExtraBackend("torchscript", f"{package}.torchscript", "TorchScriptBackend"),
        "sklearn": ExtraBackend("sklearn", f"{package}.scikit_learn", "ScikitLearnBackend"),
        "openvino": ExtraBackend("openvino", f"{package}.openvino", "OpenvinoBackend"),
    }


def _credentials(settings: Settings) -> tuple[Certificate | None, Token | None]:
    certificate = token = None
    if settings.tls_certificate is not None and settings.tls_key is not None:
        certificate = Certificate(settings.tls_certificate, settings.tls_key)
    if settings.token_file is not None:
        token = Token(settings.token_file)
    return certificate, token


async def _refresh(certificate: Certificate | None, token: Token | None) -> None:
    """Look at the files of secrets now and then; they are small."""
    while certificate is not None or token is not None:
        await asyncio.sleep(REFRESH_SECONDS)
        if certificate is not None:
            certificate.refresh()
        if token is not None:
            token.refresh()


def _http_server(
    settings: Settings,
    dataplane: Dataplane,
    figures: CollectorRegistry,
    certificate: Certificate | None,
    token: Token | None,
) -> HttpServer:
    is_shared = isinstance(figures, Collected)
    otherwise: Handler | None = None
    metrics: Handler = MetricsFrontend(figures).handle
    mounts = [Mount("/metrics", figures.refreshing(metrics) if is_shared else metrics)]
    if "oip" in settings.protocols:
        handle: Handler = OipRestFrontend(dataplane).handle
        if settings.repository_control:
            handle = RepositoryRestFrontend(dataplane, handle).handle
        mounts.append(Mount("/v2", handle))
    if "tensorflow-serving" in settings.protocols:
        mounts.append(Mount("/v1/models", TfsRestFrontend(dataplane).handle))
    if "grps" in settings.protocols:
        custom = CustomHttpFrontend(dataplane)
        control = grps_rest.StreamingControl(
            settings.grps_streaming,
            settings.grps_streaming_key,
            settings.grps_streaming_content_type,
        )
        grps = grps_rest.GrpsRestFrontend(dataplane, control, custom)
        otherwise = custom.handle
        mounts.append(Mount("/grps/v1", grps.handle, grps_rest.fault))
        page: Handler = GrpsPage(figures).handle
        mounts.append(Mount("/", figures.refreshing(page) if is_shared else page))
    router = Router(*mounts, otherwise=otherwise)
    return HttpServer(
        router.handle,
        settings.host,
        settings.http_port,
        Limits(body_bytes=settings.max_request_bytes),
        fault=router.fault,
        admission=None if token is None else token.admission,
        tls=None if certificate is None else certificate.context,
        reuse_port=is_shared,
    )


def _grpc_services(settings: Settings, dataplane: Dataplane) -> list[GrpcService]:
    protocols: list[GrpcService] = []
    if "oip" in settings.protocols:
        protocols.append(oip_grpc.service(dataplane))
    if "grps" in settings.protocols:
        protocols.append(grps_grpc.service(dataplane))
    return [*protocols, health_grpc.service(dataplane, [s.name for s in protocols])]


async def _listen(server: HttpServer | GrpcListener, setting: str, port: int) -> int:
    try:
        return await server.start()
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ListenError(
            f"{setting} {port} cannot be opened: {reason}; expected a free port"
        ) from error


def _ready_versions(registry: Registry) -> dict[tuple[str, str], bool]:
    return {(s.name, s.version): s.state == "READY" for s in registry.statuses()}


def _in_flight(registry: Registry) -> dict[tuple[str, str], Callable[[], int]]:
    return {(name, version): loaded.runner.active for name, version, loaded in registry.serving()}


def _log_failure(task: "asyncio.Task[None]") -> None:
    with contextlib.suppress(asyncio.CancelledError):
        error = task.exception()
        if error is not None:
            log.error("loading models ended unexpectedly", exc_info=error)
