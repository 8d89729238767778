"""`moorage deploy`: a file, folder or URI becomes an InferenceModel that serves.

PATH --> content --> ConfigMap or claim --> InferenceModel --> progress --> sample request
"""

import argparse
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit

import yaml

from moorage_cli.ask import upload
from moorage_cli.ask.api_failures import Forbidden, NoCluster
from moorage_cli.ask.cluster import FIELD_MANAGER, Conflict
from moorage_cli.ask.interrupts import immediate_interrupt, interrupted_by_signals
from moorage_cli.ask.onnx_file import external_files, read_onnx
from moorage_cli.commands.deploy_texts import goes_on, served
from moorage_cli.commands.model_sources import (
    check_trust,
    check_uri,
    files_of,
    find_models,
    measured,
    unchanged_content,
)
from moorage_cli.commands.rollouts import End, followed, unfinished
from moorage_cli.commands.shell import ClusterLike, Shell
from moorage_cli.judge.model_view import view
from moorage_cli.judge.rollout import line
from moorage_cli.judge.waiting import Outcome
from moorage_cli.manifests import deploying
from moorage_cli.manifests.deploying import Content, Target
from moorage_cli.manifests.model_files import FIXED_NAMES, FoundModel
from moorage_cli.manifests.object_names import NAME_LIMIT, is_object_name
from moorage_cli.printing.failures import Failure, WrongUsage
from moorage_cli.printing.progress import size
from moorage_cli.printing.report import ExitCode, Report
from moorage_cli.printing.sanitizing import clean_document

__all__ = ["run_deploy"]

OPERATOR_SELECTOR = "app.kubernetes.io/part-of=moorage"
IMAGE_VARIABLE = "MOORAGE_RUNTIME_IMAGE"
SECRETS_VARIABLE = "MOORAGE_IMAGE_PULL_SECRETS"
POLL_SECONDS = 0.5
# Where the code of a pickle would run.
PLACE = "in the model's pods"
# Reasons with which a container of the upload pod does not start without help.
POD_FAILURES = frozenset(
    {
        "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull",
        "CreateContainerConfigError", "CreateContainerError", "RunContainerError",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Source:
    """What is deployed: a URI, or local files with their content."""

    uri: str = ""
    content: Content | None = None
    paths: Mapping[str, Path] | None = None
    model: FoundModel | None = None
    root: Path = Path()


def run_deploy(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage deploy`."""
    source = _source_of(given)
    target = Target(
        name=given.name,
        namespace=given.namespace or _namespace(shell, given),
        runtime=given.runtime,
        replicas=given.replicas,
        trusted=given.trusted,
        credentials=given.credentials,
        contract=_contract_of(source) if given.contract else None,
    )
    _check_name(target, source, given)
    if given.dry_run:
        return _described(target, source, given)
    cluster = shell.connect(given)
    if source.content is not None:
        # without the CRD, the uploaded files would stay behind without a model
        with suppress(Forbidden):
            cluster.check_list(target.namespace)
    try:
        with interrupted_by_signals():
            uri = _uploaded(shell, cluster, target, source, given)
    except KeyboardInterrupt:
        shell.tell(f"{target.name}: interrupted during the upload: the model is unchanged")
        raise
    written = _written(cluster, deploying.model_of(target, uri), force=given.force)
    _own(cluster, target, source, written)
    shell.tell(f"{target.name}: the spec is written, generation {_generation(written)}")
    with immediate_interrupt(ExitCode.INTERRUPTED, complaint=goes_on(target.name, given)):
        return _followed(shell, cluster, target, given)


def _written(cluster: ClusterLike, document: Mapping[str, Any], *, force: bool) -> dict[str, Any]:
    """The model as written; what `moorage rollback` has restored is replaced without `force`.

    Raises:
        Failure: Somebody else has set a field, or `moorage scale` the replicas.
    """
    try:
        return cluster.objects.apply(document, force=force)
    except Conflict as conflict:
        # Of these fields, this tool itself sets the replicas, and those that a rollback restores.
        if conflict.owned and all(
            manager == FIELD_MANAGER and field != ".spec.replicas"
            for field, manager in conflict.owned
        ):
            return cluster.objects.apply(document, force=True)
        raise Failure(
            f"{conflict}: somebody else has set this field: leave out the option, or take the "
            "field over with --force"
        ) from conflict


def _namespace(shell: Shell, given: argparse.Namespace) -> str:
    """The namespace of the kubeconfig; "" for a dry run without one, which needs no cluster."""
    try:
        return shell.connect(given).namespace
    except NoCluster:
        if not given.dry_run:
            raise
        return ""


def _source_of(given: argparse.Namespace) -> _Source:
    """What PATH|URI names.

    Raises:
        Failure: It does not exist or holds no model.
        WrongUsage: Its scheme is not supported.
    """
    if "://" in given.source:
        _check_uri(given)
        return _Source(uri=given.source)
    if given.credentials:
        raise WrongUsage("--credentials: requires the URI of a store: omit it for a local path")
    path = Path(given.source)
    found = find_models(path)
    if len(found) != 1:
        listed = ", ".join(each.name for each in found)
        raise Failure(f"PATH: {path} contains several models: deploy one at a time: {listed}")
    (model,) = found
    check_trust(model.file, PLACE, trusted=given.trusted)
    if path.is_file():
        # a graph named model.pb is a frozen one, so the name of a SavedModel stays
        _, dot, suffix = path.name.rpartition(".")
        is_fixed = not dot or path.name in FIXED_NAMES
        paths = {path.name if is_fixed else f"model.{suffix}": path}
        weights = path.with_suffix(".bin")
        if suffix == "xml" and weights.is_file():  # of an OpenVINO graph
            paths["model.bin"] = weights
        if suffix == "onnx":
            paths = {name: path.parent / name for name in external_files(path)} | paths
    else:
        paths = files_of(path)
    content = deploying.content_of({name: measured(each) for name, each in paths.items()})
    return _Source(content=content, paths=paths, model=model, root=path)


def _check_uri(given: argparse.Namespace) -> None:
    """Refuse a URI that the API refuses, and options that only an upload has.

    Raises:
        Failure: It names a pickle that nobody trusts.
        WrongUsage: The URI or an option is invalid.
    """
    check_uri(given.source, "PATH|URI")
    options = {
        "--claim": given.claim, "--storage-class": given.storage_class, "--size": given.size,
        "--image": given.image,
    }  # fmt: skip
    for option, value in options.items():
        if value:
            raise WrongUsage(f"{option}: requires a local path, which is uploaded: omit it")
    scheme = given.source.partition("://")[0]
    if given.credentials and scheme in deploying.IN_CLUSTER:
        raise WrongUsage(
            f"--credentials: requires the URI of a store: omit it, because {scheme}:// is mounted"
        )
    check_trust(urlsplit(given.source).path, PLACE, trusted=given.trusted)


def _contract_of(source: _Source) -> dict[str, Any]:
    """The tensors of an ONNX file, read without running it.

    Raises:
        Failure: The source is not a local ONNX file.
    """
    if source.model is None or source.model.format != "onnx":
        raise Failure("--contract: requires a local ONNX file, which describes its tensors")
    path = source.root / source.model.file if source.root.is_dir() else source.root
    tensors = read_onnx(str(path), "--contract")
    return {
        side: [
            {"name": each.name, "datatype": each.datatype}
            | ({} if each.shape is None else {"shape": list(each.shape)})
            for each in listed
        ]
        for side, listed in (("inputs", tensors.inputs), ("outputs", tensors.outputs))
    }


def _in_config_map(source: _Source, given: argparse.Namespace) -> bool:
    content = source.content
    return content is not None and not given.claim and deploying.fits_config_map(content)


def _check_name(target: Target, source: _Source, given: argparse.Namespace) -> None:
    """Refuse a name of the model that is too long for the object with its files.

    Raises:
        WrongUsage: It is too long.
    """
    if source.content is None or (given.claim and not _in_config_map(source, given)):
        return
    kind = "ConfigMap" if _in_config_map(source, given) else "PersistentVolumeClaim"
    name = urlsplit(_location(target, source, given)).netloc
    if not is_object_name(name):
        limit = NAME_LIMIT - len(name) + len(target.name)
        raise WrongUsage(
            f"--name: {target.name!r} is invalid: must be at most {limit} characters, because the "
            f"{kind} with the files would be named {name}"
        )


def _location(target: Target, source: _Source, given: argparse.Namespace) -> str:
    """The URI of the model."""
    if source.content is None:
        return source.uri
    if _in_config_map(source, given):
        return f"configmap://{target.name}-model-{source.content.digest}"
    return f"pvc://{_claim(target, given)}/{_folder(target, source.content)}"


def _claim(target: Target, given: argparse.Namespace) -> str:
    return given.claim or f"{target.name}-models"


def _folder(target: Target, content: Content) -> str:
    return f"{target.name}/{content.digest}"


def _claim_document(target: Target, content: Content, given: argparse.Namespace) -> dict[str, Any]:
    size = given.size or deploying.default_size(content)
    return deploying.claim_of(target, _claim(target, given), size, given.storage_class)


def _config_map(target: Target, source: _Source) -> dict[str, Any]:
    if source.content is None or source.paths is None:
        raise AssertionError("only files are uploaded")
    data = {
        name: unchanged_content(path, source.content.files[name])
        for name, path in source.paths.items()
    }
    return deploying.config_map_of(target, source.content, data)


def _described(target: Target, source: _Source, given: argparse.Namespace) -> Report:
    """The objects that would be written, as YAML."""
    uri = _location(target, source, given)
    objects: list[dict[str, Any]] = []
    head = ""
    if source.content is not None:
        if _in_config_map(source, given):
            objects.append(_config_map(target, source))
        else:
            objects.append(_claim_document(target, source.content, given))
            count = len(source.content.files)
            files = "1 file" if count == 1 else f"{count} files"
            verb = "is" if count == 1 else "are"
            head = (
                f"# {files} ({size(source.content.size_bytes)}) {verb} uploaded to {uri}; the "
                "claim is created only if it does not exist.\n"
            )
    objects.append(deploying.model_of(target, uri))
    text = yaml.safe_dump_all(objects, sort_keys=False, allow_unicode=True)
    return Report(head + clean_document(text), {"objects": objects}, ok=True)


def _uploaded(
    shell: Shell,
    cluster: ClusterLike,
    target: Target,
    source: _Source,
    given: argparse.Namespace,
) -> str:
    """The URI of the model, whose files are in the cluster."""
    uri = _location(target, source, given)
    content = source.content
    if content is None:
        return uri
    if _in_config_map(source, given):
        cluster.objects.apply(_config_map(target, source), force=True)
        shell.tell(f"{target.name}: {size(content.size_bytes)} are in {uri}")
        return uri
    claim = _claim(target, given)
    if cluster.objects.find("PersistentVolumeClaim", target.namespace, claim) is None:
        cluster.objects.create(_claim_document(target, content, given))
        shell.tell(f"{target.name}: claim {claim} is created")
    image, pull_secrets = _image_of(cluster, given)
    program = upload.receiver_program()
    on_openshift = cluster.objects.has_group(deploying.OPENSHIFT_GROUP)
    pod = deploying.upload_pod(
        target, token_hex(4), claim, image, program, pull_secrets, on_openshift=on_openshift
    )
    name = pod["metadata"]["name"]
    try:
        cluster.objects.create(pod)
        _wait_for_pod(shell, cluster, target, name, given.timeout)
        is_new = upload.send(
            lambda: cluster.forward(target.namespace, name, deploying.UPLOAD_PORT),
            _folder(target, content),
            content,
            dict(source.paths or {}),
            lambda sent: shell.count(sent, content.size_bytes),
        )
    finally:
        cluster.objects.delete("Pod", target.namespace, name)
    state = "uploaded and verified" if is_new else "uploaded already"
    shell.tell(f"{target.name}: {size(content.size_bytes)} are {state}: {uri}")
    return uri


def _image_of(cluster: ClusterLike, given: argparse.Namespace) -> tuple[str, list[str]]:
    """The image of the upload pod and the Secrets that pull it: those of the bundled runtime.

    Raises:
        Failure: The operator's Deployment cannot be read, or there is none.
    """
    if given.image:
        return given.image, []
    fix = "set --image to an image with Python 3, such as that of the bundled runtime"
    try:
        found = cluster.objects.deployments_everywhere(OPERATOR_SELECTOR)
    except Failure as failure:
        raise Failure(f"the runtime's image is unknown: {failure}: {fix}") from failure
    for deployment in found:
        for container in deployment["spec"]["template"]["spec"]["containers"]:
            variables = {each["name"]: each.get("value", "") for each in container.get("env", [])}
            if image := variables.get(IMAGE_VARIABLE):
                secrets = variables.get(SECRETS_VARIABLE, "")
                return image, [each for each in re.split(r"[,\s]+", secrets) if each]
    raise Failure(f"the runtime's image is unknown: the operator's Deployment is missing: {fix}")


def _wait_for_pod(
    shell: Shell, cluster: ClusterLike, target: Target, name: str, seconds: float
) -> None:
    """Wait until the upload pod runs.

    Raises:
        Failure: It cannot start, has ended, or does not start in time.
    """
    deadline, shown = time.monotonic() + seconds, ""
    while True:
        pod = cluster.objects.find("Pod", target.namespace, name)
        if pod is None:
            raise Failure(f"upload pod {name}: it was deleted")
        phase, reason, message = _pod_state(pod)
        if phase == "Running":
            return
        if phase in {"Failed", "Succeeded"} or reason in POD_FAILURES:
            raise Failure(f"upload pod {name}: {reason or phase}: {message or 'it has ended'}")
        line = f"{target.name}: waiting for the upload pod: {reason or phase}"
        if line != shown:
            shell.tell(f"{line}: {message}" if message else line)
            shown = line
        if time.monotonic() > deadline:
            events = cluster.events(target.namespace, [name])
            last = f": {events[-1].reason}: {events[-1].message}" if events else ""
            raise Failure(f"upload pod {name}: it does not start within {seconds:g} s{last}")
        time.sleep(POLL_SECONDS)


def _pod_state(pod: Mapping[str, Any]) -> tuple[str, str, str]:
    """Phase, reason and message of a pod with one container."""
    status = pod.get("status", {})
    for each in status.get("containerStatuses", []):
        for state in each.get("state", {}).values():
            if state.get("reason"):
                return status.get("phase", ""), state["reason"], state.get("message", "")
    for each in status.get("conditions", []):
        if each["type"] == "PodScheduled" and each["status"] != "True":
            return status.get("phase", ""), each.get("reason", ""), each.get("message", "")
    return status.get("phase", ""), "", ""


def _own(
    cluster: ClusterLike, target: Target, source: _Source, written: Mapping[str, Any]
) -> None:
    """Let the deletion of the model delete its ConfigMap, with any client."""
    if source.content is None:
        return
    name = f"{target.name}-model-{source.content.digest}"
    if written["spec"]["model"]["uri"] != f"configmap://{name}":
        return
    body = _config_map(target, source)
    owner = {
        "apiVersion": written["apiVersion"],
        "kind": written["kind"],
        "name": target.name,
        "uid": written["metadata"]["uid"],
    }
    cluster.objects.apply(
        {**body, "metadata": {**body["metadata"], "ownerReferences": [owner]}}, force=True
    )


def _generation(written: Mapping[str, Any]) -> object:
    return written["metadata"].get("generation")


def _followed(
    shell: Shell, cluster: ClusterLike, target: Target, given: argparse.Namespace
) -> Report:
    """Show the progress until the spec serves or has failed."""
    shown = ""

    def show(body: Mapping[str, Any]) -> None:
        nonlocal shown
        found = line(view(body))
        if found != shown:
            shell.tell(f"{target.name}: {found}")
            shown = found

    end = followed(cluster, target.namespace, target.name, given.timeout, show)
    if end.outcome is Outcome.SERVES:
        _delete_unused(shell, cluster, end)
        return served(end.model, end.body, given)
    return unfinished(shell, cluster, end, given.timeout)


def _delete_unused(shell: Shell, cluster: ClusterLike, end: End) -> None:
    """Delete the ConfigMaps of this model to which no rollback can return.

    Without the rights, they stay: the model serves in any case.
    """
    place, name = end.model.namespace, end.model.name
    try:
        uploads = cluster.objects.labelled(
            "ConfigMap", place, f"{deploying.DEPLOYED_LABEL}={name}"
        )
        kept = cluster.revisions(place, end.model.selector)
        for each in deploying.unused_uploads(uploads, end.body, kept, datetime.now(UTC)):
            cluster.objects.delete("ConfigMap", place, each)
            shell.tell(f"{name}: {each} is deleted: no revision needs it")
    except Failure as failure:
        shell.tell(f"{name}: ConfigMaps of earlier revisions stay: {failure}")
