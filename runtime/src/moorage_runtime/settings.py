"""Every setting of the runtime: one table of flags, variables, defaults and what they mean.

    command line, MOORAGE_* environment -> parse() -> Settings -> app

A flag wins over its variable. ``docs/reference/runtime-settings.md`` is made from this table.
"""

import argparse
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from moorage_runtime import setting_values as values
from moorage_runtime.setting_values import PROTOCOLS

MIB: Final = 1024 * 1024
PREFIX: Final = "MOORAGE_"

LogFormat = Literal["auto", "json", "text"]
GrpcTransport = Literal["native", "grpcio"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the process was told, checked.

    Attributes: as the table ``SETTINGS`` explains them; times in seconds, sizes in bytes.
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
    max_request_bytes: int
    latest_versions: int
    repository_control: bool
    tls_certificate: pathlib.Path | None
    tls_key: pathlib.Path | None
    token_file: pathlib.Path | None
    grps_streaming: str
    grps_streaming_key: str
    grps_streaming_content_type: str
    start_offline: bool
    drain_seconds: float
    shutdown_grace_seconds: float
    log_level: str
    log_format: LogFormat


class SettingError(Exception):
    """A setting has a value that cannot be used; the text names it and what was expected."""


class Setting(msgspec.Struct, frozen=True):
    """One row of the table.

    Attributes:
        field: Attribute of Settings.
        default: Text of the default, "" for none.
        expected: What a value looks like, for the help and for errors.
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
        "What to serve: a folder with a folder per model, one model's folder, or a model file. "
        "Without it the server has no models.",
        values.path,
    ),
    Setting(
        "model_name",
        "",
        "a name",
        "Serve the whole of the model repository as one model of this name.",
        values.optional,
    ),
    Setting(
        "default_model",
        "",
        "a name",
        "Model for requests that name none, where a protocol allows that. The only model when "
        "there is one.",
        values.optional,
    ),
    Setting("host", "0.0.0.0", "an address", "Address that both ports listen on.", str),
    Setting(
        "http_port",
        "8000",
        "a port, 0 for any free one",
        "Port of every HTTP protocol and of /metrics.",
        values.port,
    ),
    Setting(
        "grpc_port",
        "8001",
        "a port, 0 for any free one",
        "Port of every gRPC protocol and of grpc.health.v1.",
        values.port,
    ),
    Setting(
        "grpc_transport",
        "native",
        "native or grpcio",
        "What serves gRPC. native is libnghttp2 in the server's own event loop and takes a "
        "fraction of the processor time; its Python binding, ngh2, is young. grpcio is gRPC's own "
        "library, and what native falls back to where ngh2 is not installed.",
        values.one_of("native", "grpcio"),
    ),
    Setting(
        "protocols",
        ",".join(PROTOCOLS),
        f"a comma-separated list of {', '.join(PROTOCOLS)}",
        "Protocols to serve; paths and services of the others do not exist.",
        values.protocols,
    ),
    Setting(
        "workers",
        "1",
        "a number, or auto for the cores that the container may use",
        "Processes that serve. Each loads every model, so that memory grows with their number.",
        values.workers,
    ),
    Setting(
        "threads",
        "0",
        "a number, 0 for the cores that the container may use, shared among the workers",
        "Threads that run one model.",
        values.count,
    ),
    Setting(
        "queue_size",
        "1000",
        "a number",
        "Requests that may wait for one model; further ones are refused as unavailable.",
        values.count,
    ),
    Setting(
        "poll_seconds",
        "0",
        "seconds, 0 for never",
        "How often to look for new, changed and removed versions in the model repository.",
        values.seconds,
    ),
    Setting(
        "max_request_bytes",
        str(64 * MIB),
        "bytes",
        "Largest request, also after decompression.",
        values.positive,
    ),
    Setting(
        "latest_versions",
        "0",
        "a number, 0 for all",
        "How many of the highest versions of each model to serve; a model.yaml may say otherwise.",
        values.count,
    ),
    Setting(
        "repository_control",
        "false",
        "true or false",
        "Let clients list, load and unload models below /v2/repository.",
        values.switch,
    ),
    Setting(
        "tls_certificate",
        "",
        "a PEM file",
        "Certificate, with its chain, for TLS on both ports. Read again when it changes.",
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
        "a file with a bearer token a line",
        "Refuse requests without one of these bearer tokens, but for live and ready checks. Read "
        "again when it changes.",
        values.path,
    ),
    Setting(
        "grps_streaming",
        "query",
        "query, header or body",
        "How a GRPS client asks predict for a stream: by a query parameter or a header with the "
        "value true, or by a JSON boolean in the body.",
        values.one_of("query", "header", "body"),
    ),
    Setting(
        "grps_streaming_key",
        "streaming",
        "a name",
        "Name of that parameter, header or member.",
        values.word,
    ),
    Setting(
        "grps_streaming_content_type",
        "application/octet-stream",
        "a media type",
        "Content-Type of GRPS streams, such as text/event-stream.",
        values.media_type,
    ),
    Setting(
        "start_offline",
        "false",
        "true or false",
        "Start out of traffic: not ready until a GRPS Online call.",
        values.switch,
    ),
    Setting(
        "drain_seconds",
        "2",
        "seconds",
        "After SIGTERM: how long the ports still take requests while readiness is false, so that "
        "load balancers notice before connections are refused.",
        values.seconds,
    ),
    Setting(
        "shutdown_grace_seconds",
        "20",
        "seconds",
        "After that: how long running requests may take to finish.",
        values.seconds,
    ),
    Setting(
        "log_level",
        "info",
        "debug, info, warning or error",
        "Least level that is logged.",
        values.one_of("debug", "info", "warning", "error"),
    ),
    Setting(
        "log_format",
        "auto",
        "auto, json or text",
        "auto is text on a terminal and JSON elsewhere.",
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
Every option can be given as an environment variable instead: MOORAGE_ and the option's name in
capitals, such as MOORAGE_HTTP_PORT=8000. The option wins.

A model repository looks like this; the folder per version may be left out, and so may the
folder per model (then the folder or the file is the one model):

  models/digits/1/model.onnx       an ONNX model, named "digits", version "1"
  models/digits/model.yaml         optional: what the file cannot tell
  models/doubler/model.py          a Python class

The server starts at once and loads in the background; GET /v2/health/ready says when all models
are ready, GET /v2/models/NAME/ready says of one model why it is not.
"""


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Read the command line and the environment.

    Raises:
        SettingError: A value cannot be used.
        SystemExit: --help was asked for, or an option does not exist.
    """
    given = vars(_parser().parse_args(arguments))
    chosen: dict[str, Any] = {
        setting.field: _value(setting, given, environment) for setting in SETTINGS
    }
    settings = Settings(**chosen)
    if settings.model_name is not None and settings.model_repository is None:
        raise SettingError(
            "--model-name (MOORAGE_MODEL_NAME) is set without --model-repository "
            "(MOORAGE_MODEL_REPOSITORY): expected the model's folder or file"
        )
    if (settings.tls_certificate is None) != (settings.tls_key is None):
        raise SettingError(
            "--tls-certificate and --tls-key (MOORAGE_TLS_CERTIFICATE, MOORAGE_TLS_KEY) go "
            "together: expected both or none"
        )
    return settings


def unknown_variables(environment: Mapping[str, str]) -> tuple[str, ...]:
    """MOORAGE_ variables that mean nothing here: a typing mistake, or of a later version."""
    known = {setting.variable for setting in SETTINGS}
    return tuple(sorted(n for n in environment if n.startswith(PREFIX) and n not in known))


def _value(setting: Setting, given: dict[str, Any], environment: Mapping[str, str]) -> Any:
    flag: str | None = given[setting.field]
    source = setting.flag if flag is not None else setting.variable
    text = environment.get(setting.variable, setting.default) if flag is None else flag
    try:
        return setting.read(text)
    except ValueError:
        raise SettingError(f"{source} is '{text}', expected {setting.expected}") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="moorage-runtime",
        description=_INTRODUCTION,
        epilog=_EPILOGUE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for setting in SETTINGS:
        default = f" Default: {setting.default}." if setting.default else ""
        parser.add_argument(
            setting.flag,
            dest=setting.field,
            metavar="VALUE",
            help=f"{setting.help} Expects {setting.expected}.{default}",
        )
    return parser
