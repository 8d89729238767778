"""The operator's settings: flags, MOORAGE_* variables and their descriptions.

One table defines the parser, `--help` and the reference page. A flag overrides its variable. An
invalid setting ends the process with a message that names the setting, its value and what it must
be; nothing is corrected silently.
"""

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from .api.config import OperatorConfig

PREFIX = "MOORAGE_"

NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
# One requirement of a label selector: key, !key, key=value, key!=value, key in (a,b).
_WORD = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = rf"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_WORD}"
_SET = rf"\(\s*({_WORD})?(\s*,\s*({_WORD})?)*\s*\)"
REQUIREMENT = re.compile(
    rf"\s*(!\s*{_KEY}|{_KEY}(\s*(=|==|!=)\s*({_WORD})?|\s+(in|notin)\s*{_SET})?)\s*"
)
LABEL_VALUE = re.compile(_WORD)
BETWEEN_REQUIREMENTS = re.compile(r",(?![^(]*\))")
_PART = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DOMAIN = re.compile(rf"{_PART}(\.{_PART})*")
# Kubernetes sets variables of this form in pods for every Service of the namespace, and one of
# these Services may be called moorage.
SERVICE_LINK = re.compile(r".*_(SERVICE_(HOST|PORT(_.*)?)|PORT(_\d+_(TCP|UDP|SCTP)(_.*)?)?)")


class SettingsError(Exception):
    """A setting is invalid; the message names it."""


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
    secret_hints: bool = False
    ca_file: str = ""


@dataclass(frozen=True, slots=True)
class Option:
    """A setting.

    Attributes:
        flag: The name on the command line.
        default: The text to parse if neither the flag nor the variable is set; None if required.
        parse: Converts the text; raises ValueError with the text after "must be".
        metavar: The placeholder of the value in --help.
        text: The description, with the unit and the meaning of the default.
    """

    flag: str
    default: str | None
    parse: Callable[[str], Any]
    metavar: str
    text: str

    @property
    def variable(self) -> str:
        """The environment variable of the setting."""
        return PREFIX + self.flag.removeprefix("--").replace("-", "_").upper()

    @property
    def field(self) -> str:
        """The name of the parsed value."""
        return self.flag.removeprefix("--").replace("-", "_")


def _namespaces(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if not NAMESPACE.fullmatch(name):
            raise ValueError(f"namespace names separated by commas; {name!r} is not one")
    if text.strip() and not names:  # empty means all
        raise ValueError("namespace names separated by commas, or empty for all namespaces")
    return tuple(dict.fromkeys(names))


def _one_namespace(text: str) -> str:
    if text and not NAMESPACE.fullmatch(text):
        raise ValueError("a namespace name or empty")
    return text


def _selector(text: str) -> str:
    """Check a label selector by the rules of the API server.

    Source: Kubernetes, "Labels and Selectors"; k8s.io/apimachinery, labels.Parse.
    """
    for requirement in BETWEEN_REQUIREMENTS.split(text) if text.strip() else ():
        if not REQUIREMENT.fullmatch(requirement):
            raise ValueError(
                "a label selector such as moorage.dev/shard=a or 'team in (x,y),!canary'; "
                f"{requirement.strip()!r} is not a valid requirement"
            )
    return text.strip()


def _label_value(text: str) -> str:
    if not LABEL_VALUE.fullmatch(text):
        raise ValueError("the value of a label such as moorage")
    return text


def _lease_name(text: str) -> str:
    if not DOMAIN.fullmatch(text):
        raise ValueError("an object name such as moorage-operator")
    return text


def _image(text: str) -> str:
    if not text or any(c.isspace() for c in text):
        raise ValueError("an image reference such as registry.example/moorage-runtime:1.0")
    return text


def _object_names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if not DOMAIN.fullmatch(name):
            raise ValueError(f"names of Secrets separated by commas; {name!r} is not one")
    return tuple(dict.fromkeys(names))


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("true or false")
    return text == "true"


def _domain(text: str) -> str:
    if not DOMAIN.fullmatch(text):
        raise ValueError("a DNS domain such as cluster.local")
    return text


def _resources(text: str) -> dict[str, Any]:
    try:
        found: object = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"container resources as JSON ({error})") from error
    if not isinstance(found, dict):
        raise ValueError(  # noqa: TRY004 -- every parser of this table reports by ValueError
            'container resources as a JSON object, such as {"requests":{"cpu":"100m"}}'
        )
    resources = cast("dict[str, Any]", found)
    if unknown := resources.keys() - {"requests", "limits", "claims"}:
        raise ValueError(f"an object of requests, limits and claims; {min(unknown)!r} is unknown")
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
        "Namespaces to serve, separated by commas. Empty: all, with one watch per kind. A list "
        "needs one watch per kind and namespace, and rights only in these namespaces.",
    ),
    Option(
        "--watch-label-selector",
        "",
        _selector,
        "SELECTOR",
        "Serve only InferenceModels with matching labels, such as moorage.dev/shard=a. Empty: "
        "all. If installations share namespaces, each model must match the selector of exactly "
        "one, and each needs its own --lease-name. A model whose labels change moves to the other "
        "installation and keeps running.",
    ),
    Option(
        "--runtime-image",
        None,
        _image,
        "IMAGE",
        "Image of the bundled runtime, for all models that set no runtime.image. There is no "
        "default; the chart sets the image of its release.",
    ),
    Option(
        "--image-pull-policy",
        "",
        _one_of("", "Always", "IfNotPresent", "Never"),
        "POLICY",
        "Pull policy of the bundled runtime's image: Always, IfNotPresent or Never. Empty: "
        "Kubernetes chooses it by the tag.",
    ),
    Option(
        "--image-pull-secrets",
        "",
        _object_names,
        "A,B",
        "Names of pull Secrets, separated by commas, for model pods that use the bundled "
        "runtime's image. The Secrets must exist in every namespace with models. Empty: only the "
        "imagePullSecrets of the model.",
    ),
    Option(
        "--secret-hints",
        "false",
        _boolean,
        "BOOLEAN",
        "true: check whether the Secrets of a pod that does not start exist, which needs the "
        "right to get Secrets; only their metadata is read. false: list these Secrets in the "
        "message.",
    ),
    Option(
        "--ca-file",
        "",
        _text,
        "FILE",
        "PEM file of CAs that sign the certificates of models with spec.tls, for models whose "
        "Secret has no ca.crt or may not be read by the operator. Empty: the CAs of the "
        "operator's image.",
    ),
    Option(
        "--cluster-domain",
        "cluster.local",
        _domain,
        "DOMAIN",
        "DNS domain of Services in the cluster, for the URLs in the status.",
    ),
    Option(
        "--default-resources",
        "{}",
        _resources,
        "JSON",
        "Container resources as JSON, for models that set none. An empty object sets none, so "
        "that a LimitRange of the namespace applies.",
    ),
    Option(
        "--image-volumes",
        "auto",
        _one_of("auto", "always", "never"),
        "WHEN",
        "Whether a model from a registry (oci://) with imageVolume: Auto is mounted as an image "
        "volume. auto: if the API server and all nodes support image volumes, which is checked at "
        "startup and needs the right to list nodes. always: without this check. never: an init "
        "container downloads the model.",
    ),
    Option(
        "--workers",
        "32",
        _integer(1, 256),
        "N",
        "Maximum number of children that are written concurrently in a namespace, beside three "
        "times as many statuses; all namespaces together get less than twice as many. Services "
        "are created before Deployments. 32 keep one API server busy without overloading it.",
    ),
    Option(
        "--polls-a-second",
        "50",
        _integer(1, 10000),
        "N",
        "Budget of polls per second for all serving replicas. If there are too many replicas, "
        "they are polled less often than their pollIntervalSeconds: with 20,000 replicas, each "
        "every 400 s. Replicas that start, change or fail are polled at once, regardless of the "
        "budget.",
    ),
    Option(
        "--name-label",
        "moorage",
        _label_value,
        "NAME",
        "Value of the label app.kubernetes.io/name on the operator's own pods, by which the "
        "NetworkPolicies of models admit them.",
    ),
    Option(
        "--lease-namespace",
        "",
        _one_namespace,
        "NAMESPACE",
        "Namespace of the Lease for leader election. Empty: no Lease, for a single process.",
    ),
    Option(
        "--lease-name",
        "moorage-operator",
        _lease_name,
        "NAME",
        "Name of the Lease, unique for each installation in a namespace.",
    ),
    Option(
        "--health-host",
        "::",
        _text,
        "ADDRESS",
        "Listen address for /livez, /readyz and /metrics. The default is all addresses, of IPv6 "
        "and IPv4.",
    ),
    Option(
        "--health-port",
        "8080",
        _integer(0, 65535),
        "PORT",
        "Port for /livez, /readyz and /metrics; 0 selects a free port and logs it.",
    ),
    Option(
        "--log-format",
        "json",
        _one_of("json", "text"),
        "FORMAT",
        "json: one object per line, for log collectors. text: for people.",
    ),
    Option(
        "--log-level",
        "info",
        _one_of("debug", "info", "warning", "error"),
        "LEVEL",
        "Lowest level that is logged.",
    ),
)

DESCRIPTION = """\
Serves InferenceModels: creates a Deployment and a Service for each, polls every replica, and
reports in the status whether the model is ready.

The API server is configured by KUBECONFIG, otherwise by the service account of the pod."""

EPILOG = """\
Every flag has an environment variable, such as MOORAGE_LOG_FORMAT for --log-format. A flag
overrides its variable.

examples:
  KUBECONFIG=~/dev.kubeconfig moorage-operator --runtime-image runtime:dev --log-format text
  moorage-operator --namespaces team-a,team-b

exit status: 0 after SIGTERM or SIGINT, 1 after a fatal error, 2 for an invalid setting."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingsError(message)


def parser(version: str) -> argparse.ArgumentParser:
    """Build the parser of the command line, also for --help."""
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
    """Parse the settings of a process.

    Raises:
        SettingsError: A setting is missing, unknown or invalid.
        SystemExit: --help or --version was printed.
    """
    given = vars(parser(version).parse_args(arguments))
    _refuse_unknown(environ)
    values = {option.field: _value(option, given[option.field], environ) for option in OPTIONS}
    return Settings(
        namespaces=values["namespaces"],
        config=OperatorConfig(
            runtime_image=values["runtime_image"],
            image_pull_policy=values["image_pull_policy"],
            image_pull_secrets=values["image_pull_secrets"],
            cluster_domain=values["cluster_domain"],
            default_resources=values["default_resources"],
            # The chart sets the lease's namespace to that of the process.
            namespace=values["lease_namespace"],
            name_label=values["name_label"],
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
        secret_hints=values["secret_hints"],
        ca_file=values["ca_file"],
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
        raise SettingsError(f"{source}: {text!r} is invalid: must be {error}") from error


def _refuse_unknown(environ: Mapping[str, str]) -> None:
    known = {option.variable for option in OPTIONS}
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known and not SERVICE_LINK.fullmatch(name):
            raise SettingsError(
                f"{name} is not a setting of the operator: must be one of "
                f"{', '.join(sorted(known))}"
            )
