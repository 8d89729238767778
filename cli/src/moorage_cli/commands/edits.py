"""The commands that edit a model: each reads it, decides one edit and sends it."""

import argparse
import json
from collections.abc import Callable
from datetime import UTC, datetime

from moorage_cli.ask.cluster import Conflict
from moorage_cli.commands.shell import Shell
from moorage_cli.edit import verbs
from moorage_cli.edit.model import Edit, Resource
from moorage_cli.edit.rollback import kept_specs, rollback
from moorage_cli.printing.report import Report
from moorage_cli.printing.sanitizing import clean, clean_document

__all__ = [
    "run_abort",
    "run_pause",
    "run_promote",
    "run_restart",
    "run_resume",
    "run_retry",
    "run_rollback",
    "run_scale",
]

# A model in a rollout changes often, because the operator writes its status.
ATTEMPTS = 8


def run_promote(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage promote`."""
    return _edited(shell, given, verbs.promote, given.revision)


def run_abort(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage abort`."""
    return _edited(shell, given, verbs.abort, given.revision)


def run_restart(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage restart`."""
    now = datetime.now(UTC)
    return _edited(shell, given, lambda model, _: verbs.restart(model, now))


def run_retry(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage retry`."""
    now = datetime.now(UTC)
    return _edited(shell, given, lambda model, _: verbs.retry(model, now))


def run_scale(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage scale`."""
    return _edited(shell, given, lambda model, _: verbs.scale(model, given.replicas))


def run_rollback(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage rollback`."""
    cluster = shell.connect(given)
    namespace = given.namespace or cluster.namespace

    def decide(model: Resource, to: str) -> Edit:
        selector = model.status.get("selector")
        kept = cluster.revisions(namespace, str(selector)) if selector else []
        return rollback(model, kept_specs(kept), to)

    return _edited(shell, given, decide, given.to, dry_run=given.dry_run)


def run_pause(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage pause`."""
    return _edited(shell, given, lambda model, _: verbs.pause(model))


def run_resume(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage resume`."""
    return _edited(shell, given, lambda model, _: verbs.resume(model))


def _edited(
    shell: Shell,
    given: argparse.Namespace,
    decide: Callable[[Resource, str], Edit],
    revision: str = "",
    *,
    dry_run: bool = False,
) -> Report:
    """Read a model, decide its edit and send it; again if somebody changes it meanwhile.

    A repetition names the same revision, so that it never acts on one that the user did not see.
    """
    cluster = shell.connect(given)
    namespace, name = given.namespace or cluster.namespace, given.name
    for left in reversed(range(ATTEMPTS)):
        edit = decide(Resource(cluster.model(namespace, name)), revision)
        document = {"namespace": namespace, "name": name, "patch": edit.patch, "done": edit.done}
        if dry_run:
            text = json.dumps(edit.patch or [], indent=2, ensure_ascii=False)
            return Report(f"{clean_document(text)}\n", {**document, "dryRun": True}, ok=True)
        revision = edit.pinned
        try:
            if edit.patch is not None:
                cluster.patch(namespace, name, edit.patch)
        except Conflict:
            if not left:
                raise
            continue
        sentence = f"{clean(name)}: {clean(edit.done)}\n"
        return Report(sentence, document, ok=True, names=(name,))
    raise AssertionError("unreachable")
