"""The operator's settings: flags, MOORAGE_* variables, and the text that explains them.

One table drives the parser, `--help` and the reference page. A flag wins over its variable. What
cannot be used ends the process with one sentence that names the setting, its value and what was
expected; nothing is silently corrected.
"""

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from .config import OperatorConfig

PREFIX = "MOORAGE_"

NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
# One requirement of a label selector: key, !key, key=value, key!=value, key in (a,b).
_WORD = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = rf"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_WORD}"
_SET = rf"\(\s*({_WORD})?(\s*,\s*({_WORD})?)*\s*\)"
REQUIREMENT = re.compile(
    rf"\s*(!\s*{_KEY}|{_KEY}(\s*(=|==|!=)\s*({_WORD})?|\s+(in|notin)\s*{_SET})?)\s*"
)
BETWEEN_REQUIREMENTS = re.compile(r",(?![^(]*\))")
DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
# Kubernetes puts variables of this form into pods for every Service of the namespace, and one of
# those Services may well be called moorage.
SERVICE_LINK = re.compile(r".*_(SERVICE_(HOST|PORT(_.*)?)|PORT(_\d+_(TCP|UDP|SCTP)(_.*)?)?)")


class SettingsError(Exception):
    """A setting cannot be used; the message names it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a process."""

    namespaces: tuple[str, ...]
    config: OperatorConfig
    workers: int
    polls_a_second: int
    health_host: str
    health_port: int
    log_format: str
    log_level: str
    watch_label_selector: str = ""
    lease_namespace: str = ""
    lease_name: str = "moorage-operator"
    image_volumes: str = "auto"


@dataclass(frozen=True, slots=True)
class Option:
    """A setting.

    Attributes:
        flag: Name on the command line.
        default: Text that is parsed when neither flag nor variable is given; None: required.
        parse: Text to value; raises ValueError with what was expected.
        metavar: What stands for the value in --help.
        text: What it does, its unit, and why this default.
    """

    flag: str
    default: str | None
    parse: Callable[[str], Any]
    metavar: str
    text: str

    @property
    def variable(self) -> str:
        """The environment variable of the same meaning."""
        return PREFIX + self.flag.removeprefix("--").replace("-", "_").upper()

    @property
    def field(self) -> str:
        """The name among the parsed values."""
        return self.flag.removeprefix("--").replace("-", "_")


def _namespaces(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if not NAMESPACE.fullmatch(name):
            raise ValueError(f"namespace names, separated by commas; {name!r} is none")
    return tuple(dict.fromkeys(names))


def _one_namespace(text: str) -> str:
    if text and not NAMESPACE.fullmatch(text):
        raise ValueError("a namespace name, or nothing")
    return text


def _selector(text: str) -> str:
    """A label selector as the API server reads it; it would refuse another at each request.

    Source: Kubernetes, "Labels and Selectors"; k8s.io/apimachinery, labels.Parse.
    """
    for requirement in BETWEEN_REQUIREMENTS.split(text) if text.strip() else ():
        if not REQUIREMENT.fullmatch(requirement):
            raise ValueError(
                "a label selector like moorage.dev/shard=a or 'team in (x,y),!canary'; "
                f"{requirement.strip()!r} is no requirement of one"
            )
    return text.strip()


def _lease_name(text: str) -> str:
    if not DOMAIN.fullmatch(text):
        raise ValueError("an object name like moorage-operator")
    return text


def _image(text: str) -> str:
    if not text or any(c.isspace() for c in text):
        raise ValueError("an image reference like registry.example/moorage-runtime:1.0")
    return text


def _domain(text: str) -> str:
    if not DOMAIN.fullmatch(text):
        raise ValueError("a DNS domain like cluster.local")
    return text


def _resources(text: str) -> dict[str, Any]:
    try:
        found: object = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"container resources as JSON ({error})") from error
    if not isinstance(found, dict):
        raise ValueError(  # noqa: TRY004 -- every parser of this table reports by ValueError
            'container resources as a JSON object, like {"requests":{"cpu":"100m"}}'
        )
    resources = cast("dict[str, Any]", found)
    if unknown := resources.keys() - {"requests", "limits", "claims"}:
        raise ValueError(f"requests, limits or claims; {min(unknown)!r} is none")
    return resources


def _text(text: str) -> str:
    return text


def _one_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError("one of " + ", ".join(repr(each) for each in allowed))
        return text

    return parse


def _integer(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return int(text)

    return parse


OPTIONS = (
    Option(
        "--namespaces",
        "",
        _namespaces,
        "A,B",
        "Namespaces to serve, separated by commas. Empty: all, with one watch for each kind; a "
        "list costs one watch for each kind and namespace, and needs rights in these alone.",
    ),
    Option(
        "--watch-label-selector",
        "",
        _selector,
        "SELECTOR",
        "Serve only InferenceModels whose labels match, like moorage.dev/shard=a. Empty: all. "
        "Installations that share namespaces need selectors of which each model matches one, and "
        "a --lease-name each; a model whose labels change goes from one to the other as it runs.",
    ),
    Option(
        "--runtime-image",
        None,
        _image,
        "IMAGE",
        "Image of the bundled runtime, which serves every model that names no image of its own. "
        "No default: the chart sets the one that it was released with.",
    ),
    Option(
        "--image-pull-policy",
        "",
        _one_of("", "Always", "IfNotPresent", "Never"),
        "POLICY",
        "Pull policy of the bundled runtime's image: Always, IfNotPresent or Never. Empty: "
        "Kubernetes decides by the tag.",
    ),
    Option(
        "--cluster-domain",
        "cluster.local",
        _domain,
        "DOMAIN",
        "DNS domain of the cluster's Services, for the URLs in the status.",
    ),
    Option(
        "--default-resources",
        "{}",
        _resources,
        "JSON",
        "Container resources of models that set none, as JSON. Empty object: none, so that a "
        "namespace's LimitRange decides.",
    ),
    Option(
        "--image-volumes",
        "auto",
        _one_of("auto", "always", "never"),
        "WHEN",
        "Whether a model of a registry (oci://) that leaves imageVolume at Auto is mounted as an "
        "image volume. auto: where the API server and every node have image volumes, which is "
        "found out at the start and needs the right to list nodes. never: an init container "
        "fetches it.",
    ),
    Option(
        "--workers",
        "32",
        _integer(1, 256),
        "N",
        "Models that are worked on at a time, new ones on half of them; of a crowd of new ones "
        "as many again get their Deployments. A pass waits for the API server most of its time; "
        "32 keep one API server busy without crowding it.",
    ),
    Option(
        "--polls-a-second",
        "50",
        _integer(1, 10000),
        "N",
        "Polls a second that all replicas which serve share. Where they are more than fit, each "
        "is asked less often than its pollIntervalSeconds says: of 20,000, each every 400 s. What "
        "starts, changes or fails is asked at once whatever stands here.",
    ),
    Option(
        "--lease-namespace",
        "",
        _one_namespace,
        "NAMESPACE",
        "Namespace of the Lease by which one of several processes leads. Empty: no Lease, for a "
        "process that runs alone.",
    ),
    Option(
        "--lease-name",
        "moorage-operator",
        _lease_name,
        "NAME",
        "Name of the Lease; another one for each installation of a namespace.",
    ),
    Option(
        "--health-host",
        "0.0.0.0",
        _text,
        "ADDRESS",
        "Address that /livez, /readyz and /metrics listen on. The default serves the kubelet and "
        "Prometheus, which come from other addresses.",
    ),
    Option(
        "--health-port",
        "8080",
        _integer(0, 65535),
        "PORT",
        "Port of /livez, /readyz and /metrics; 0 takes a free one and logs it.",
    ),
    Option(
        "--log-format",
        "json",
        _one_of("json", "text"),
        "FORMAT",
        "json: one object a line, for collectors. text: for people.",
    ),
    Option(
        "--log-level",
        "info",
        _one_of("debug", "info", "warning", "error"),
        "LEVEL",
        "The least important lines that are shown.",
    ),
)

DESCRIPTION = """\
Serves InferenceModels: keeps a Deployment and a Service for each, asks every replica whether the
model is ready, and writes the truth to its status.

The API server is found by KUBECONFIG, else by the service account of the pod."""

EPILOG = """\
Every flag has an environment variable: --log-format is MOORAGE_LOG_FORMAT. A flag wins.

examples:
  KUBECONFIG=~/dev.kubeconfig moorage-operator --runtime-image runtime:dev --log-format text
  moorage-operator --namespaces team-a,team-b

exit status: 0 after SIGTERM or SIGINT, 1 when it cannot go on, 2 when a setting is unusable."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingsError(message)


def parser(version: str) -> argparse.ArgumentParser:
    """The command line's parser, for --help as well."""
    made = _Parser(
        prog="moorage-operator",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--version", action="version", version=f"moorage-operator {version}")
    for option in OPTIONS:
        shown = "required" if option.default is None else f"default: {option.default or 'empty'}"
        made.add_argument(
            option.flag,
            metavar=option.metavar,
            help=f"{option.text} [{option.variable}] ({shown})".replace("%", "%%"),
        )
    return made


def parse(arguments: Sequence[str], environ: Mapping[str, str], *, version: str) -> Settings:
    """The settings of a process.

    Raises:
        SettingsError: A setting is missing, unknown or unusable.
        SystemExit: --help or --version was asked for and printed.
    """
    given = vars(parser(version).parse_args(arguments))
    _refuse_unknown(environ)
    values = {option.field: _value(option, given[option.field], environ) for option in OPTIONS}
    return Settings(
        namespaces=values["namespaces"],
        config=OperatorConfig(
            runtime_image=values["runtime_image"],
            image_pull_policy=values["image_pull_policy"],
            cluster_domain=values["cluster_domain"],
            default_resources=values["default_resources"],
            # The chart gives every process a lease in the namespace that it runs in.
            namespace=values["lease_namespace"],
        ),
        workers=values["workers"],
        polls_a_second=values["polls_a_second"],
        watch_label_selector=values["watch_label_selector"],
        lease_namespace=values["lease_namespace"],
        lease_name=values["lease_name"],
        health_host=values["health_host"],
        health_port=values["health_port"],
        log_format=values["log_format"],
        log_level=values["log_level"],
        image_volumes=values["image_volumes"],
    )


def _value(option: Option, flag: str | None, environ: Mapping[str, str]) -> Any:
    source, text = option.flag, flag
    if text is None:
        source, text = option.variable, environ.get(option.variable)
    if text is None:
        source, text = option.flag, option.default
    if text is None:
        raise SettingsError(f"{option.flag} or {option.variable} must be set: {option.text}")
    try:
        return option.parse(text)
    except ValueError as error:
        raise SettingsError(f"{source}: {text!r} cannot be used, expected {error}") from error


def _refuse_unknown(environ: Mapping[str, str]) -> None:
    known = {option.variable for option in OPTIONS}
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known and not SERVICE_LINK.fullmatch(name):
            raise SettingsError(
                f"{name} is no setting of the operator; known: {', '.join(sorted(known))}"
            )
