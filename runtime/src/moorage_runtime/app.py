"""Wires the runtime together and runs it until it is told to stop.

Settings -> registry, loader, dataplane, frontends, listeners -> signal -> drain -> end
"""

import asyncio
import contextlib
import importlib.metadata
import logging
import signal
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry

from moorage_runtime.backends.base import Backend
from moorage_runtime.backends.extra import ExtraBackend
from moorage_runtime.backends.onnx import providers
from moorage_runtime.backends.onnx.backend import OnnxBackend
from moorage_runtime.backends.onnx.device import Device
from moorage_runtime.backends.python.packages import Packages
from moorage_runtime.backends.python.process import IsolatingPythonBackend, end_all
from moorage_runtime.backends.tables.mlflow import MlflowBackend
from moorage_runtime.dataplane import Dataplane
from moorage_runtime.dataplane.metrics import InferenceMetrics, new_registry
from moorage_runtime.frontends import forks
from moorage_runtime.frontends.credentials import Certificate, Token
from moorage_runtime.frontends.draining import until_clients_leave
from moorage_runtime.frontends.grpc import health as health_grpc
from moorage_runtime.frontends.grpc.methods import GrpcService
from moorage_runtime.frontends.grpc.transport import GrpcListener, Listening, make_listener
from moorage_runtime.frontends.grps import grpc as grps_grpc
from moorage_runtime.frontends.grps import rest as grps_rest
from moorage_runtime.frontends.grps.custom_http import CustomHttpFrontend
from moorage_runtime.frontends.grps.page import GrpsPage
from moorage_runtime.frontends.http.limits import Limits
from moorage_runtime.frontends.http.message import Handler
from moorage_runtime.frontends.http.metrics import MetricsFrontend
from moorage_runtime.frontends.http.router import Mount, Router
from moorage_runtime.frontends.http.server import HttpServer
from moorage_runtime.frontends.listening import refused
from moorage_runtime.frontends.oip import grpc as oip_grpc
from moorage_runtime.frontends.oip.repository import RepositoryRestFrontend
from moorage_runtime.frontends.oip.rest import OipRestFrontend
from moorage_runtime.frontends.tfs.rest import TfsRestFrontend
from moorage_runtime.repository.loader import Loader, LoaderOptions
from moorage_runtime.repository.registry import Registry
from moorage_runtime.settings import Settings, cores
from moorage_runtime.values.budget import ByteBudget
from moorage_runtime.values.errors import DeviceLost
from moorage_runtime.values.inference import ServerMetadata
from moorage_runtime.workers.collected import Collected
from moorage_runtime.workers.link import connect
from moorage_runtime.workers.member import Member
from moorage_runtime.workers.shared.messages import Begin

log = logging.getLogger(__name__)

Stop = asyncio.Future[signal.Signals | DeviceLost]

NAME: Final = "moorage"
# Interval at which changed secret files are reloaded.
REFRESH_SECONDS: Final = 2.0
# How much longer the ports may stay open while clients still connect, in multiples of the delay.
_LONGER_DRAINS: Final = 2


async def run(settings: Settings, link: int | None = None) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        settings: What to serve and how.
        link: Descriptor of the connection to the supervisor, in a worker.

    Raises:
        InvalidConfig: A certificate or token file is invalid, or the execution provider is not
            installed.
        ListenError: A port is in use or not allowed.
        DeviceLost: The GPU no longer answers this process.
    """
    stop = _stop_signals()
    ports: set[int] = set()
    forks.prepare(ports, link)
    supervisor = None if link is None else await connect(link)
    if supervisor is not None:
        settings = _as_told(settings, supervisor.begin)
    providers.check_installed(settings.execution_provider)
    prometheus = new_registry()
    metrics = InferenceMetrics(prometheus)
    registry = Registry(settings.ready_when, settings.ready_models)
    metrics.watch(registry.version_states)
    budget = ByteBudget(settings.max_inflight_bytes)
    loader = Loader(
        _loader_options(settings, budget),
        registry,
        _backends(settings, _stop_without_device(stop)),
        metrics.loaded,
        metrics.ran,
    )
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
    metrics_registry = prometheus if supervisor is None else Collected(supervisor)
    http = _http_server(settings, dataplane, metrics_registry, certificate, token, budget)
    listening = Listening(
        host=settings.host,
        port=settings.grpc_port,
        max_message_bytes=settings.max_request_bytes,
        certificate=certificate,
        authorize=None if token is None else token.authorize,
        reuse_port=supervisor is not None,
        budget=budget,
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
    http_port = await _listen(http, "http_port", settings.host, settings.http_port)
    grpc_port = await _listen(grpc, "grpc_port", settings.host, settings.grpc_port)
    ports.update((http_port, grpc_port))
    log.info("listening on HTTP port %d and gRPC port %d", http_port, grpc_port)
    if member is not None:
        member.listens()
    cause = await stop
    await _drain(settings, cause, dataplane, http, grpc)
    for task in tasks:
        task.cancel()
    loader.close()
    end_all()
    if isinstance(cause, DeviceLost):
        raise cause
    log.info("ended")


async def _drain(
    settings: Settings,
    cause: signal.Signals | DeviceLost,
    dataplane: Dataplane,
    http: HttpServer,
    grpc: GrpcListener,
) -> None:
    """Report not ready at once; after a delay, close the ports and let current requests finish."""
    dataplane.drain()
    http.leave()
    # after Ctrl-C, no load balancer needs time
    delay = 0.0 if cause is signal.SIGINT else settings.drain_seconds
    grace = settings.shutdown_grace_seconds
    what = f"received {cause.name}" if isinstance(cause, signal.Signals) else str(cause)
    log.info("%s: reporting not ready, closing the ports in %g s", what, delay)
    if delay:
        loop = asyncio.get_running_loop()
        end = loop.time() + delay + grace
        # running requests keep at least half of the grace period
        most = delay + min(_LONGER_DRAINS * delay, grace / 2)
        await until_clients_leave(lambda: http.arrivals + grpc.arrivals, delay, most)
        grace = max(0.0, min(grace, end - loop.time()))
        log.info("closing the ports")
    await asyncio.gather(http.stop(grace), grpc.stop(grace))


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
    """The metadata lists only extensions that are enabled (R0-041)."""
    extensions = ["binary_tensor_data"]
    if settings.repository_control:
        extensions.append("model_repository")
    return ServerMetadata(NAME, importlib.metadata.version("moorage-runtime"), tuple(extensions))


def _stop_signals() -> Stop:
    loop = asyncio.get_running_loop()
    stop: Stop = loop.create_future()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _settle, stop, number)
    return stop


def _settle(stop: Stop, cause: signal.Signals | DeviceLost) -> None:
    # ignore a second cause: the grace period limits the shutdown
    if not stop.done():
        stop.set_result(cause)


def _stop_without_device(stop: Stop) -> Callable[[], None]:
    """A function for any thread that stops the server because its GPU no longer answers."""
    lost = DeviceLost("the GPU no longer answers this process, which must be restarted")

    def settle() -> None:
        # a closed loop has already stopped the server
        with contextlib.suppress(RuntimeError):
            stop.get_loop().call_soon_threadsafe(partial(_settle, stop, lost))

    return settle


def _loader_options(settings: Settings, budget: ByteBudget) -> LoaderOptions:
    root = settings.model_repository
    return LoaderOptions(
        # a model's own code may change the current folder
        None if root is None else root.absolute(),
        settings.model_name,
        threads=settings.threads or cores.usable(),
        waiting=settings.queue_size,
        poll_seconds=settings.poll_seconds,
        latest_versions=settings.latest_versions,
        timeout_seconds=settings.request_timeout_seconds,
        budget=budget,
        allow_pickle=settings.allow_pickle,
    )


def _backends(settings: Settings, device_lost: Callable[[], None]) -> Mapping[str, Backend]:
    package = "moorage_runtime.backends"
    tables = f"{package}.tables"
    is_on_gpu = settings.execution_provider == providers.CUDA
    onnx = OnnxBackend(Device(device_lost) if is_on_gpu else None)
    return {
        "onnx": onnx,
        "python": IsolatingPythonBackend(
            Packages(settings.python_packages, settings.python_index)
        ),
        "torchscript": ExtraBackend("torchscript", f"{package}.torchscript", "TorchScriptBackend"),
        "text": ExtraBackend(
            "text", f"{package}.text_encoder.backend", "TextEncoderBackend", onnx
        ),
        "mlflow": MlflowBackend(onnx),
        "sklearn": ExtraBackend("tables", f"{tables}.scikit_learn", "ScikitLearnBackend"),
        "xgboost": ExtraBackend("tables", f"{tables}.xgboost", "XgboostBackend"),
        "lightgbm": ExtraBackend("tables", f"{tables}.lightgbm", "LightgbmBackend"),
        "catboost": ExtraBackend("tables", f"{tables}.catboost", "CatboostBackend"),
        "openvino": ExtraBackend("openvino", f"{package}.openvino.backend", "OpenvinoBackend"),
    }


def _credentials(settings: Settings) -> tuple[Certificate | None, Token | None]:
    certificate = token = None
    if settings.tls_certificate is not None and settings.tls_key is not None:
        certificate = Certificate(settings.tls_certificate, settings.tls_key)
    if settings.token_file is not None:
        token = Token(settings.token_file)
    return certificate, token


async def _refresh(certificate: Certificate | None, token: Token | None) -> None:
    """Periodically reload secret files, which are small."""
    while certificate is not None or token is not None:
        await asyncio.sleep(REFRESH_SECONDS)
        if certificate is not None:
            certificate.refresh()
        if token is not None:
            token.refresh()


def _http_server(
    settings: Settings,
    dataplane: Dataplane,
    metrics_registry: CollectorRegistry,
    certificate: Certificate | None,
    token: Token | None,
    budget: ByteBudget,
) -> HttpServer:
    is_shared = isinstance(metrics_registry, Collected)
    otherwise: Handler | None = None
    json_bytes = settings.max_json_bytes
    metrics: Handler = MetricsFrontend(metrics_registry).handle
    mounts = [Mount("/metrics", metrics_registry.refreshing(metrics) if is_shared else metrics)]
    if "oip" in settings.protocols:
        handle: Handler = OipRestFrontend(dataplane, json_bytes=json_bytes).handle
        if settings.repository_control:
            handle = RepositoryRestFrontend(dataplane, handle).handle
        mounts.append(Mount("/v2", handle))
    if "tensorflow-serving" in settings.protocols:
        mounts.append(
            Mount("/v1/models", TfsRestFrontend(dataplane, json_bytes=json_bytes).handle)
        )
    if "grps" in settings.protocols:
        custom = CustomHttpFrontend(dataplane)
        control = grps_rest.StreamingControl(
            settings.grps_streaming,
            settings.grps_streaming_key,
            settings.grps_streaming_content_type,
        )
        grps = grps_rest.GrpsRestFrontend(
            dataplane,
            control,
            custom,
            json_bytes=json_bytes,
            may_switch=settings.may_switch_traffic,
        )
        otherwise = custom.handle
        mounts.append(Mount("/grps/v1", grps.handle, grps_rest.fault))
        page: Handler = GrpsPage(metrics_registry).handle
        mounts.append(Mount("/", metrics_registry.refreshing(page) if is_shared else page))
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
        budget=budget,
    )


def _grpc_services(settings: Settings, dataplane: Dataplane) -> list[GrpcService]:
    protocols: list[GrpcService] = []
    if "oip" in settings.protocols:
        protocols.append(oip_grpc.service(dataplane))
    if "grps" in settings.protocols:
        protocols.append(grps_grpc.service(dataplane, may_switch=settings.may_switch_traffic))
    return [*protocols, health_grpc.service(dataplane, [s.name for s in protocols])]


async def _listen(server: HttpServer | GrpcListener, setting: str, host: str, port: int) -> int:
    try:
        return await server.start()
    except (OSError, RuntimeError) as error:
        raise refused(setting, host, port, error) from error


def _log_failure(task: "asyncio.Task[None]") -> None:
    with contextlib.suppress(asyncio.CancelledError):
        error = task.exception()
        if error is not None:
            log.error("a background task ended unexpectedly", exc_info=error)
