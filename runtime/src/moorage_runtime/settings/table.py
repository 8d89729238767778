"""All settings of the runtime: flags, variables, defaults and help.

    command line, MOORAGE_* environment -> parse() -> Settings -> app

A flag takes precedence over its variable. ``docs/reference/runtime-settings.md`` is generated from
this table.
"""

import argparse
import importlib.metadata
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from moorage_runtime.settings import values
from moorage_runtime.settings.values import PROTOCOLS

MIB: Final = 1024 * 1024
PREFIX: Final = "MOORAGE_"

LogFormat = Literal["auto", "json", "text"]
ReadyWhen = Literal["any", "all", "listed"]
ExecutionProvider = Literal["cpu", "cuda"]
GrpcTransport = Literal["native", "grpcio"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The checked settings of the process.

    Attributes: see ``SETTINGS``; times are in seconds, sizes in bytes.
    """

    model_repository: pathlib.Path | None
    model_name: str | None
    default_model: str | None
    host: str
    http_port: int
    grpc_port: int
    grpc_transport: GrpcTransport
    protocols: tuple[str, ...]
    workers: int
    threads: int
    queue_size: int
    poll_seconds: float
    request_timeout_seconds: float
    max_request_bytes: int
    max_json_bytes: int
    max_inflight_bytes: int
    worker_timeout_seconds: float
    latest_versions: int
    ready_when: ReadyWhen
    ready_models: tuple[str, ...]
    repository_control: bool
    allow_pickle: bool
    execution_provider: ExecutionProvider
    python_packages: pathlib.Path | None
    python_index: str
    tls_certificate: pathlib.Path | None
    tls_key: pathlib.Path | None
    token_file: pathlib.Path | None
    grps_streaming: str
    grps_streaming_key: str
    grps_streaming_content_type: str
    grps_traffic_control: bool
    start_offline: bool
    drain_seconds: float
    shutdown_grace_seconds: float
    log_level: str
    log_format: LogFormat

    @property
    def may_switch_traffic(self) -> bool:
        """Whether GRPS clients may take the server offline and online.

        With a token file, requests without a token are refused before this check.
        """
        return self.grps_traffic_control or self.token_file is not None


class SettingError(Exception):
    """An invalid setting; the message contains the setting, the value and what is allowed."""


class Setting(msgspec.Struct, frozen=True):
    """One row of the table.

    Attributes:
        field: Attribute of Settings.
        default: Text of the default, "" without one.
        expected: What is allowed, for the help and for errors.
        help: One or two sentences.
        read: Turns the text into the value; raises ValueError.
    """

    field: str
    default: str
    expected: str
    help: str
    read: Callable[[str], Any]

    @property
    def flag(self) -> str:
        """The command-line option."""
        return f"--{self.field.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """The environment variable."""
        return f"{PREFIX}{self.field.upper()}"


SETTINGS: Final[Sequence[Setting]] = (
    Setting(
        "model_repository",
        "",
        "a folder or a model file",
        "What to serve: a repository with a folder per model, the folder of one model, or a "
        "model file. Without it, the server has no models.",
        values.path,
    ),
    Setting(
        "model_name",
        "",
        "a name",
        "Serve the whole model repository as one model with this name.",
        values.optional,
    ),
    Setting(
        "default_model",
        "",
        "a name",
        "Model for requests without a model name, in protocols that allow this. By default, the "
        "only model.",
        values.optional,
    ),
    Setting("host", "::", "an address", "Address of both ports; :: is all of IPv6 and IPv4.", str),
    Setting(
        "http_port",
        "8000",
        "a port number, or 0 for any free port",
        "Port for all HTTP protocols and for /metrics.",
        values.port,
    ),
    Setting(
        "grpc_port",
        "8001",
        "a port number, or 0 for any free port",
        "Port for all gRPC protocols and for grpc.health.v1.",
        values.port,
    ),
    Setting(
        "grpc_transport",
        "native",
        "native or grpcio",
        "gRPC implementation. native uses libnghttp2 in the server's own event loop and needs a "
        "fraction of the CPU time; its Python binding, ngh2, is young. grpcio is gRPC's own "
        "library, which is also the fallback if ngh2 is not installed.",
        values.one_of("native", "grpcio"),
    ),
    Setting(
        "protocols",
        ",".join(PROTOCOLS),
        f"a comma-separated list of {', '.join(PROTOCOLS)}",
        "Protocols to serve. The paths and services of other protocols do not exist.",
        values.protocols,
    ),
    Setting(
        "workers",
        "1",
        "a number, or auto for the number of usable cores",
        "Number of serving processes. Each process loads all models, so memory grows "
        "with this number.",
        values.workers,
    ),
    Setting(
        "threads",
        "0",
        "a number, or 0 for the usable cores, divided among the workers",
        "Threads per model. An ONNX model keeps its threads as long as it is loaded; each one "
        "beyond the first takes 60 KiB. Set 1 for a server with hundreds of small models.",
        values.count,
    ),
    Setting(
        "queue_size",
        "1000",
        "a number",
        "Maximum number of waiting requests per model. Further requests are refused as "
        "unavailable.",
        values.count,
    ),
    Setting(
        "poll_seconds",
        "0",
        "a number of seconds, or 0 for never",
        "Interval at which the server looks for new, changed and removed models in the "
        "model repository.",
        values.seconds,
    ),
    Setting(
        "request_timeout_seconds",
        "300",
        "a number of seconds, or 0 for no limit",
        "Maximum time for which a request may wait and run, and for each part of a stream. After "
        "it, the client gets 504 or DEADLINE_EXCEEDED. A model.yaml can override it.",
        values.seconds,
    ),
    Setting(
        "max_inflight_bytes",
        str(1024 * MIB),
        "a number of bytes, or 0 for no limit",
        "Maximum memory of the requests that arrive, wait or run, of all models together. Further "
        "requests get 503 or RESOURCE_EXHAUSTED at once.",
        values.count,
    ),
    Setting(
        "worker_timeout_seconds",
        "30",
        "a number of seconds, or 0 for no limit",
        "With several workers, the time after which a worker without a response is "
        "killed and replaced.",
        values.seconds,
    ),
    Setting(
        "max_request_bytes",
        str(64 * MIB),
        "a positive number of bytes",
        "Maximum size of a request, also after decompression.",
        values.positive,
    ),
    Setting(
        "max_json_bytes",
        str(16 * MIB),
        "a positive number of bytes",
        "Maximum size of the JSON text in a request. JSON needs many times the memory and CPU "
        "time of binary data, so send large tensors with the binary tensor extension or gRPC.",
        values.positive,
    ),
    Setting(
        "latest_versions",
        "0",
        "a number, or 0 for all",
        "Number of versions to serve per model, counted from the highest. A model.yaml "
        "can override it.",
        values.count,
    ),
    Setting(
        "ready_when",
        "any",
        "any, all or listed",
        "Which models must be able to answer before the server is ready. any: at least one, "
        "after every model found at startup has loaded or failed. all: every model. listed: "
        "those in --ready-models.",
        values.one_of("any", "all", "listed"),
    ),
    Setting(
        "ready_models",
        "",
        "a comma-separated list of model names",
        "Models that --ready-when=listed requires.",
        values.names,
    ),
    Setting(
        "repository_control",
        "false",
        "true or false",
        "Let clients list, load and unload models with the paths below /v2/repository.",
        values.switch,
    ),
    Setting(
        "tls_certificate",
        "",
        "a PEM file",
        "Certificate with its chain, for TLS on both ports. The file is reloaded when it changes.",
        values.path,
    ),
    Setting(
        "tls_key",
        "",
        "a PEM file",
        "Private key of the certificate.",
        values.path,
    ),
    Setting(
        "token_file",
        "",
        "a file with one bearer token per line, or a folder of such files",
        "Require one of these bearer tokens, except for live and ready checks. In a folder, such "
        "as a mounted Secret, each file can have the tokens of one client. The files are reloaded "
        "when they change.",
        values.path,
    ),
    Setting(
        "allow_pickle",
        "false",
        "true or false",
        "Load models that are pickles (model.pkl, model.joblib), and skops files with unknown "
        "types. They can run any code with the permissions of the server. Allow this only if "
        "you trust everyone who can write the model files. spec.model.trusted of an "
        "InferenceModel sets it.",
        values.switch,
    ),
    Setting(
        "execution_provider",
        "cpu",
        "cpu or cuda",
        "Where ONNX models run. cuda is an NVIDIA GPU and requires an image built with "
        "EXTRAS=gpu; the server does not start without it.",
        values.one_of("cpu", "cuda"),
    ),
    Setting(
        "python_packages",
        "",
        "a writable folder",
        "Install the packages of Python models that have a requirements.txt and ask for it in "
        "their model.yaml, into this folder. Without it, such models fail.",
        values.path,
    ),
    Setting(
        "python_index",
        "",
        "a folder of wheels, or the URL of a package index",
        "Where these packages come from. By default, pip's own configuration decides.",
        values.text,
    ),
    Setting(
        "grps_streaming",
        "query",
        "query, header or body",
        "How a GRPS client requests a stream from predict: with a query parameter or a header "
        "that has the value true, or with a JSON boolean in the body.",
        values.one_of("query", "header", "body"),
    ),
    Setting(
        "grps_streaming_key",
        "streaming",
        "a name",
        "Name of this parameter, header or member.",
        values.word,
    ),
    Setting(
        "grps_streaming_content_type",
        "application/octet-stream",
        "a media type",
        "Content-Type of GRPS streams, for example text/event-stream.",
        values.media_type,
    ),
    Setting(
        "grps_traffic_control",
        "false",
        "true or false",
        "Let every GRPS client take the server offline and online. With --token-file, only "
        "clients with a token can do this, regardless of this setting.",
        values.switch,
    ),
    Setting(
        "start_offline",
        "false",
        "true or false",
        "Start offline: the server is not ready until a GRPS Online call, which requires "
        "--token-file or --grps-traffic-control.",
        values.switch,
    ),
    Setting(
        "drain_seconds",
        "2",
        "a number of seconds",
        "How long the ports stay open after SIGTERM while the server reports not ready, so that "
        "load balancers stop sending requests before connections are refused. While clients "
        "still open connections at short intervals, the ports stay open up to three times as "
        "long, which takes at most half of --shutdown-grace-seconds.",
        values.seconds,
    ),
    Setting(
        "shutdown_grace_seconds",
        "20",
        "a number of seconds",
        "How long running requests may take to finish after that.",
        values.seconds,
    ),
    Setting(
        "log_level",
        "info",
        "debug, info, warning or error",
        "Minimum level of log messages.",
        values.one_of("debug", "info", "warning", "error"),
    ),
    Setting(
        "log_format",
        "auto",
        "auto, json or text",
        "auto is text on a terminal, otherwise JSON.",
        values.one_of("auto", "json", "text"),
    ),
)

_INTRODUCTION: Final = """\
Serve models over the Open Inference Protocol (HTTP and gRPC), TensorFlow Serving's REST API and
GRPS (HTTP and gRPC).

  moorage-runtime --model-repository model.onnx
  curl localhost:8000/v2/models/model
"""
_EPILOGUE: Final = """\
Every option is also an environment variable: MOORAGE_ and the name of the option in capitals, such
as MOORAGE_HTTP_PORT=8000. The option overrides the variable.

A model repository has a folder per model. The folder per version is optional, and a repository can
also be the folder or the file of a single model:

  models/digits/1/model.onnx       an ONNX model with the name "digits" and the version "1"
  models/digits/model.yaml         optional properties that the model's file does not contain
  models/doubler/model.py          a Python class

The server starts at once and loads models in the background. GET /v2/health/ready shows whether
the server is ready (--ready-when), and GET /v2/models/NAME/ready shows why a model is not.
"""


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Read the command line and the environment.

    Raises:
        SettingError: A value is invalid.
        SystemExit: For --help, --version and unknown options.
    """
    given = vars(_parser().parse_args(arguments))
    chosen: dict[str, Any] = {
        setting.field: _value(setting, given, environment) for setting in SETTINGS
    }
    settings = Settings(**chosen)
    if settings.model_name is not None and settings.model_repository is None:
        raise SettingError(
            "--model-name (MOORAGE_MODEL_NAME) requires --model-repository "
            "(MOORAGE_MODEL_REPOSITORY): set it to the model's folder or file"
        )
    if (settings.ready_when == "listed") != bool(settings.ready_models):
        raise SettingError(
            "--ready-when=listed (MOORAGE_READY_WHEN) and --ready-models (MOORAGE_READY_MODELS) "
            "require each other: set both or neither"
        )
    if (settings.tls_certificate is None) != (settings.tls_key is None):
        raise SettingError(
            "--tls-certificate (MOORAGE_TLS_CERTIFICATE) and --tls-key (MOORAGE_TLS_KEY) require "
            "each other: set both or neither"
        )
    return settings


def unknown_variables(environment: Mapping[str, str]) -> tuple[str, ...]:
    """MOORAGE_ variables that are not settings, such as misspelled ones."""
    known = {setting.variable for setting in SETTINGS}
    return tuple(sorted(n for n in environment if n.startswith(PREFIX) and n not in known))


def _value(setting: Setting, given: dict[str, Any], environment: Mapping[str, str]) -> Any:
    flag: str | None = given[setting.field]
    source = setting.flag if flag is not None else setting.variable
    text = environment.get(setting.variable, setting.default) if flag is None else flag
    try:
        return setting.read(text)
    except ValueError:
        raise SettingError(f"{source}: '{text}' is invalid: must be {setting.expected}") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="moorage-runtime",
        description=_INTRODUCTION,
        epilog=_EPILOGUE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    version = f"moorage-runtime {importlib.metadata.version('moorage-runtime')}"
    parser.add_argument("--version", action="version", version=version, help="Print the version.")
    for setting in SETTINGS:
        default = f" Default: {setting.default}." if setting.default else ""
        parser.add_argument(
            setting.flag,
            dest=setting.field,
            metavar="VALUE",
            help=f"{setting.help} Must be {setting.expected}.{default}",
        )
    return parser
