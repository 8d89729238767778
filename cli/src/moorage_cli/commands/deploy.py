"""`moorage deploy`: a file, folder or URI becomes an InferenceModel that serves.

PATH --> content --> ConfigMap, claim or store --> InferenceModel --> progress --> sample request
"""

import argparse
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from moorage_cli.ask.api_failures import Forbidden, NoCluster
from moorage_cli.ask.bucket import upload_to_bucket
from moorage_cli.ask.cluster import FIELD_MANAGER, Conflict
from moorage_cli.ask.google_bucket import upload_to_google
from moorage_cli.ask.interrupts import immediate_interrupt, interrupted_by_signals
from moorage_cli.ask.onnx_file import external_files, read_onnx
from moorage_cli.ask.registry import push
from moorage_cli.commands.deploy_claim import upload_to_claim
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
from moorage_cli.manifests.stores import Artifact, Bucket, Store, store_of
from moorage_cli.printing.failures import Failure, WrongUsage
from moorage_cli.printing.progress import size
from moorage_cli.printing.report import ExitCode, Report
from moorage_cli.printing.sanitizing import clean_document

__all__ = ["run_deploy"]

# Where the code of a pickle would run.
PLACE = "in the model's pods"


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
        is_artifact=given.to.startswith("oci://"),
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
    _check_place(given)
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


def _check_place(given: argparse.Namespace) -> None:
    """Refuse options that contradict the place of an upload.

    Raises:
        WrongUsage: An option needs a store or a claim, and the files go elsewhere.
    """
    if given.credentials and not given.to:
        raise WrongUsage(
            "--credentials: requires a URI, or a local path that is uploaded with --to: omit it"
        )
    for option, value in _claim_options(given).items():
        if value and given.to:
            raise WrongUsage(f"{option}: requires an upload to a claim: omit it, or --to")


def _claim_options(given: argparse.Namespace) -> dict[str, object]:
    return {
        "--claim": given.claim, "--storage-class": given.storage_class, "--size": given.size,
        "--image": given.image,
    }  # fmt: skip


def _check_uri(given: argparse.Namespace) -> None:
    """Refuse a URI that the API refuses, and options that only an upload has.

    Raises:
        Failure: It names a pickle that nobody trusts.
        WrongUsage: The URI or an option is invalid.
    """
    check_uri(given.source, "PATH|URI")
    for option, value in {"--to": given.to, **_claim_options(given)}.items():
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
    is_free = not given.claim and not given.to
    return content is not None and is_free and deploying.fits_config_map(content)


def _store(target: Target, source: _Source, given: argparse.Namespace) -> Store | None:
    """The place of the files outside of the cluster, if they go there.

    Raises:
        WrongUsage: `--to` is invalid.
    """
    if source.content is None or not given.to:
        return None
    store = store_of(given.to, target.name, source.content)
    check_uri(store.uri, "--to")
    return store


def _check_name(target: Target, source: _Source, given: argparse.Namespace) -> None:
    """Refuse a name of the model that is too long for the object with its files.

    Raises:
        WrongUsage: It is too long.
    """
    if source.content is None or given.to or given.claim:
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
    if store := _store(target, source, given):
        return store.uri
    if _in_config_map(source, given):
        return f"configmap://{target.name}-model-{source.content.digest}"
    return f"pvc://{_claim(target, given)}/{deploying.folder_of(target, source.content)}"


def _claim(target: Target, given: argparse.Namespace) -> str:
    return given.claim or f"{target.name}-models"


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
            count = len(source.content.files)
            files = "1 file" if count == 1 else f"{count} files"
            verb = "is" if count == 1 else "are"
            head = f"# {files} ({size(source.content.size_bytes)}) {verb} uploaded to {uri}"
            if not given.to:
                objects.append(_claim_document(target, source.content, given))
                head += "; the claim is created only if it does not exist"
            head += ".\n"
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
    paths, store = dict(source.paths or {}), _store(target, source, given)
    if store is None:
        claim = _claim_document(target, content, given)
        is_new = upload_to_claim(shell, cluster, target, claim, content, paths, given)
    else:
        is_new = _to_store(store, content, paths, lambda n: shell.count(n, content.size_bytes))
    state = "uploaded and verified" if is_new else "uploaded already"
    shell.tell(f"{target.name}: {size(content.size_bytes)} are {state}: {uri}")
    return uri


def _to_store(
    store: Store, content: Content, paths: dict[str, Path], progress: Callable[[int], None]
) -> bool:
    match store:
        case Bucket(scheme="gs"):
            return upload_to_google(store, content, paths, progress)
        case Bucket():
            return upload_to_bucket(store, content, paths, progress)
        case Artifact():
            return push(store, content, paths, progress)


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
