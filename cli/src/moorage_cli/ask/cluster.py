"""The cluster, as the commands see it: objects as dictionaries, and failures as sentences.

Only this module, `objects`, `kubeconfig` and `api_failures` import the `kubernetes` package. They
make no decisions.
"""

import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import InsecureRequestWarning

from kubernetes import client, config, stream
from moorage_cli.ask.answers import RETRIES, items_of, list_of, object_of, watch_events_of
from moorage_cli.ask.api_failures import (
    Conflict,
    Expired,
    Missing,
    NoCluster,
    NotServed,
    Unavailable,
    failures_of,
)
from moorage_cli.ask.kubeconfig import load_kubeconfig
from moorage_cli.ask.objects import Objects
from moorage_cli.ask.port_forward import PortForward
from moorage_cli.ask.proxies import use_proxy
from moorage_cli.edit.model import Patch
from moorage_cli.judge.model_view import moment
from moorage_cli.judge.why import EventView
from moorage_cli.manifests.object_names import is_namespace_name
from moorage_cli.printing.failures import Failure

__all__ = ["FIELD_MANAGER", "Cluster", "Conflict", "TokenAccount"]

GROUP, VERSION, PLURAL = "moorage.dev", "v1alpha1", "inferencemodels"
RUNTIMES = "inferenceruntimes"
# kubectl waits forever; a script that queries a dead cluster should not.
TIMEOUT_SECONDS = 30
WATCH_SECONDS = 240
EVENT_LIMIT = 500
SHORT_WATCH_SECONDS = 1.0
# A model that is followed is read again after this time, because a failure that lasts changes
# nothing.
FOLLOW_SECONDS = 5.0
FIELD_MANAGER = "moorage-cli"
OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
ASKED: dict[str, Any] = {"_request_timeout": TIMEOUT_SECONDS, "_preload_content": False}

# The last failure is reported as one sentence; the client's notes on its retries only repeat it.
logging.getLogger("urllib3").setLevel(logging.CRITICAL)
warnings.filterwarnings("ignore", category=InsecureRequestWarning)


@dataclass(frozen=True, slots=True)
class TokenAccount:
    """A user of a cluster, known only by a bearer token.

    Args:
        address: URL of the API server.
        ca_file: The CAs in PEM that have issued its certificate.
        token: The bearer token.
    """

    address: str
    ca_file: str
    token: str = field(repr=False)

    def configuration(self) -> Any:
        """The client's configuration, without other credentials."""
        made = client.Configuration(host=self.address, ssl_ca_cert=self.ca_file)
        made.api_key["authorization"] = f"Bearer {self.token}"
        use_proxy(made)
        return made


class Cluster:
    """A cluster of a kubeconfig, or the cluster that the program runs in.

    Args:
        kubeconfig: Path of the file; empty for KUBECONFIG or ~/.kube/config.
        context: Name of the context; empty for the current one.
        account: Whose token is used instead of a kubeconfig.

    Raises:
        Failure: There is no usable configuration.
    """

    def __init__(
        self, kubeconfig: str = "", context: str = "", *, account: TokenAccount | None = None
    ) -> None:
        self._context = ""
        if account is not None:
            self.namespace = "default"
            self._configuration = account.configuration()
        else:
            self._load(kubeconfig, context)
        self._configuration.retries = RETRIES
        self._client = client.ApiClient(self._configuration)
        self._open_feed: Any = None
        self._has_ended = False

    @property
    def place(self) -> str:
        """The context, if there is one, and the address of the API server."""
        return ", ".join(filter(None, [self._context, self._configuration.host]))

    @property
    def objects(self) -> Objects:
        """The objects beside models."""
        return Objects(self._client)

    def _load(self, kubeconfig: str, context: str) -> None:
        try:
            loaded = load_kubeconfig(kubeconfig, context)
            self._configuration, self.namespace = loaded.configuration, loaded.namespace
            self._context = loaded.context
        except NoCluster:
            if context or not self._load_in_cluster():
                raise

    def _load_in_cluster(self) -> bool:
        """Load the configuration of the pod that this runs in; whether there is one."""
        configuration = client.Configuration()
        try:
            config.load_incluster_config(client_configuration=configuration)
        except ConfigException:
            return False
        use_proxy(configuration)
        self._configuration, self.namespace = configuration, _own_namespace()
        return True

    def models(self, namespace: str | None) -> list[dict[str, Any]]:
        """All models of a namespace, or of all namespaces if it is None.

        Raises:
            Failure: The namespace does not exist, if the user may find that out.
        """
        found = self._list_models(namespace)["items"]
        if not found and namespace is not None:
            self._check_namespace(namespace)
        return found

    def model(self, namespace: str, name: str) -> dict[str, Any]:
        """One model.

        Raises:
            Failure: It does not exist.
        """
        api: Any = client.CustomObjectsApi(self._client)
        try:
            with failures_of(f"inferencemodel {namespace}/{name}"):
                return object_of(
                    api.get_namespaced_custom_object(
                        GROUP, VERSION, namespace, PLURAL, name, **ASKED
                    )
                )
        except NotServed:
            raise
        except Missing:
            self._check_namespace(namespace)
            raise

    def runtimes(self) -> list[dict[str, Any]]:
        """All InferenceRuntimes."""
        api: Any = client.CustomObjectsApi(self._client)
        with failures_of("inferenceruntimes"):
            return items_of(api.list_cluster_custom_object(GROUP, VERSION, RUNTIMES, **ASKED))

    def runtime(self, name: str) -> dict[str, Any]:
        """One InferenceRuntime.

        Raises:
            Failure: It does not exist.
        """
        api: Any = client.CustomObjectsApi(self._client)
        with failures_of(f"inferenceruntime {name}"):
            return object_of(
                api.get_cluster_custom_object(GROUP, VERSION, RUNTIMES, name, **ASKED)
            )

    def changes(self, namespace: str | None, name: str) -> Iterator[tuple[str, Any]]:
        """All models as they are, then each change with its kind, forever; as `feed` does.

        Raises:
            Failure: The named model does not exist at first, or the namespace does not, if the
                user may find that out.
        """
        if name and namespace is not None:
            self.model(namespace, name)
        for kind, found in self.feed(namespace, name):
            if kind == "ALL" and not found and not name and namespace is not None:
                self._check_namespace(namespace)
            yield kind, found

    def feed(self, namespace: str | None, name: str = "") -> Iterator[tuple[str, Any]]:
        """All models as they are, then each change with its kind, until `end_feed`.

        Args:
            namespace: Whose models; None for all namespaces.
            name: Only this model.

        Yields:
            `("ALL", resources)` first, and again after the start of the watch has expired; then
            `("PUT", resource)` and `("DELETED", resource)`.
        """
        # the server ends each watch after some time; the next one starts at the last version
        since = ""
        while not self._has_ended:
            if not since:
                listed = self._list_models(namespace, name)
                since = _version(listed)
                # popped: a watch of hours would keep every model as it was
                yield "ALL", listed.pop("items")
            began = time.monotonic()
            try:
                for kind, found in self._watched(namespace, name, since, WATCH_SECONDS):
                    since = _version(found)
                    yield ("DELETED" if kind == "DELETED" else "PUT"), found
            except Expired:
                since = ""
            _pause(began)

    def end_feed(self) -> None:
        """End `feed`, which another thread runs: it returns or raises Failure."""
        # in this order, so that a watch which opens meanwhile sees it
        self._has_ended = True
        if self._open_feed is not None:
            self._open_feed.shutdown()

    def check_list(self, namespace: str | None) -> None:
        """Do nothing if the models of a namespace, or of all, may be listed.

        Raises:
            Unauthenticated: The API server does not accept the credentials.
            Forbidden: The user may not list them.
        """
        call, arguments = self._models_call(namespace, "")
        with failures_of("inferencemodels"):
            list_of(call(*arguments, limit=1, **ASKED))

    def _watched(
        self, namespace: str | None, name: str, since: str, seconds: float
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """The kind and the model of each change until the API server ends the watch.

        Raises:
            Expired: The start of the watch is too old.
        """
        call, arguments = self._models_call(namespace, name)
        what = f"inferencemodel {namespace}/{name}" if name else "inferencemodels"
        limits: dict[str, Any] = {
            "timeout_seconds": max(1, round(seconds)),
            "_request_timeout": seconds + TIMEOUT_SECONDS,
            "_preload_content": False,
        }
        with failures_of(what):
            answer = call(*arguments, watch=True, resource_version=since, **limits)
            self._open_feed = answer
            try:
                if self._has_ended:
                    raise Failure("the feed has ended")
                for kind, found in watch_events_of(answer):
                    if kind in {"ADDED", "MODIFIED", "DELETED"}:
                        yield kind, found
            finally:
                answer.close()

    def follow(self, namespace: str, name: str, seconds: float) -> Iterator[dict[str, Any]]:
        """One model as it is, then each change, until it is deleted or the time is over.

        Without a change, it is yielded again every few seconds. An API server that does not answer
        is asked again until the time is over, because it may only be restarted.

        Raises:
            Failure: It does not exist, has been deleted, or cannot be read.
        """
        deadline = time.monotonic() + seconds
        found: dict[str, Any] = {}
        while True:
            began = time.monotonic()
            try:
                found = self.model(namespace, name)
                yield found
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                began = time.monotonic()
                limit = min(left, FOLLOW_SECONDS)
                for kind, changed in self._watched(namespace, name, _version(found), limit):
                    if kind == "DELETED":
                        raise Failure(f"inferencemodel {namespace}/{name}: it was deleted")
                    yield changed
            except Expired:
                continue
            except Unavailable:
                if not found or time.monotonic() >= deadline:
                    raise
            _pause(began)

    def patch(self, namespace: str, name: str, patch: Patch) -> dict[str, Any]:
        """Change one model; a list is a JSON patch, an object a merge patch.

        Raises:
            Conflict: The model has changed since it was read.
            Failure: It does not exist, or the change is refused.
        """
        api: Any = client.CustomObjectsApi(self._client)
        how = "json" if isinstance(patch, list) else "merge"
        with failures_of(f"inferencemodel {namespace}/{name}"):
            return object_of(
                api.patch_namespaced_custom_object(
                    GROUP,
                    VERSION,
                    namespace,
                    PLURAL,
                    name,
                    patch,
                    field_manager=FIELD_MANAGER,
                    _content_type=f"application/{how}-patch+json",
                    **ASKED,
                )
            )

    def revisions(self, namespace: str, selector: str) -> list[dict[str, Any]]:
        """The objects that keep earlier revisions: ReplicaSets and ControllerRevisions."""
        api: Any = client.AppsV1Api(self._client)
        found: list[dict[str, Any]] = []
        for kind, call in (
            ("replicasets", api.list_namespaced_replica_set),
            ("controllerrevisions", api.list_namespaced_controller_revision),
        ):
            with failures_of(f"{kind} of {namespace}"):
                found += items_of(call(namespace, label_selector=selector, **ASKED))
        return found

    def events(self, namespace: str, names: list[str]) -> list[EventView]:
        """The events about objects with these names."""
        api: Any = client.CoreV1Api(self._client)
        found: list[EventView] = []
        for name in names:
            with failures_of(f"events of {namespace}"):
                answer = api.list_namespaced_event(
                    namespace,
                    field_selector=f"involvedObject.name={name}",
                    limit=EVENT_LIMIT,
                    **ASKED,
                )
                found += [_event(item) for item in items_of(answer)]
        return found

    def pods(self, namespace: str, selector: str) -> list[dict[str, Any]]:
        """The pods that a selector selects."""
        api: Any = client.CoreV1Api(self._client)
        with failures_of(f"pods of {namespace}"):
            return items_of(api.list_namespaced_pod(namespace, label_selector=selector, **ASKED))

    def pod_metrics(self, namespace: str, selector: str) -> list[dict[str, Any]]:
        """Usage of these pods, from the metrics API.

        Raises:
            Failure: The metrics API is missing or access is denied.
        """
        api: Any = client.CustomObjectsApi(self._client)
        with failures_of("the metrics API (metrics.k8s.io)"):
            return items_of(
                api.list_namespaced_custom_object(
                    "metrics.k8s.io",
                    "v1beta1",
                    namespace,
                    "pods",
                    label_selector=selector,
                    **ASKED,
                )
            )

    def forward(self, namespace: str, pod: str, port: int) -> PortForward:
        """A local port that is forwarded to a pod's port."""

        def connect() -> tuple[Any, Callable[[], str]]:
            # One client per connection: `stream` replaces the client's own request function.
            api: Any = client.CoreV1Api(client.ApiClient(self._configuration))
            with failures_of("port-forward"):
                opened: Any = stream.portforward(
                    api.connect_get_namespaced_pod_portforward, pod, namespace, ports=str(port)
                )

            def problem() -> str:
                return opened.error(port) or ""

            return opened.socket(port), problem

        return PortForward(connect)

    def _check_namespace(self, name: str) -> None:
        """Do nothing if a namespace exists, or if the user may not find that out.

        Raises:
            Missing: It does not exist.
        """
        api: Any = client.CoreV1Api(self._client)
        try:
            with failures_of(f"namespace {name}"):
                object_of(api.read_namespace(name, **ASKED))
        except Missing as error:
            raise Missing(
                f"namespace {name} does not exist: set --namespace to one that exists"
            ) from error
        except Failure:
            return

    def _list_models(self, namespace: str | None, name: str = "") -> dict[str, Any]:
        call, arguments = self._models_call(namespace, name)
        with failures_of("inferencemodels"):
            return list_of(call(*arguments, **ASKED))

    def _models_call(
        self, namespace: str | None, name: str
    ) -> tuple[Callable[..., Any], list[str]]:
        api: Any = client.CustomObjectsApi(self._client)

        def in_namespace(*arguments: str, **words: Any) -> Any:
            return api.list_namespaced_custom_object(*arguments, **_selected(name), **words)

        def everywhere(*arguments: str, **words: Any) -> Any:
            return api.list_cluster_custom_object(*arguments, **_selected(name), **words)

        if namespace is None:
            return everywhere, [GROUP, VERSION, PLURAL]
        return in_namespace, [GROUP, VERSION, namespace, PLURAL]


def _own_namespace() -> str:
    """The namespace of the pod that this runs in, which kubectl uses as well."""
    try:
        found = OWN_NAMESPACE.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return "default"
    return found if is_namespace_name(found) else "default"


def _selected(name: str) -> dict[str, str]:
    return {"field_selector": f"metadata.name={name}"} if name else {}


def _version(found: Mapping[str, Any]) -> str:
    """The version from which to resume a watch; empty to start a new one."""
    return str(found["metadata"].get("resourceVersion") or "")


def _pause(began: float) -> None:
    """Wait if a watch ended as soon as it began, as those of a broken proxy do."""
    if time.monotonic() - began < SHORT_WATCH_SECONDS:
        time.sleep(SHORT_WATCH_SECONDS)


def _event(item: dict[str, Any]) -> EventView:
    about = item.get("involvedObject") or {}
    series = item.get("series") or {}
    times = (series.get("lastObservedTime"), item.get("lastTimestamp"), item.get("eventTime"))
    return EventView(
        kind=about.get("kind") or "",
        name=about.get("name") or "",
        type=item.get("type") or "",
        reason=item.get("reason") or "",
        message=item.get("message") or "",
        count=series.get("count") or item.get("count") or 1,
        last=moment(next((time for time in times if time), None)),
    )
