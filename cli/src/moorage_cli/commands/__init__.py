"""The commands: each gathers its inputs and passes them to the pure module of its name.

What is decided belongs in `judge`, `edit` and `manifests`.
"""

import argparse
from collections.abc import Callable, Mapping

from moorage_cli.commands import (
    bench,
    deploy,
    edits,
    everyday,
    files,
    local,
    look,
    reports,
    requests,
    rollouts,
)
from moorage_cli.commands.shell import Shell
from moorage_cli.printing.report import Report

__all__ = ["RUN", "Shell"]

RUN: Mapping[str, Callable[[Shell, argparse.Namespace], Report]] = {
    "run": local.run_run,
    "deploy": deploy.run_deploy,
    "status": reports.run_status,
    "why": reports.run_why,
    "runtimes": reports.run_runtimes,
    "wait": rollouts.run_wait,
    "rollout": rollouts.run_rollout,
    "promote": edits.run_promote,
    "abort": edits.run_abort,
    "restart": edits.run_restart,
    "retry": edits.run_retry,
    "scale": edits.run_scale,
    "rollback": edits.run_rollback,
    "pause": edits.run_pause,
    "resume": edits.run_resume,
    "logs": everyday.run_logs,
    "events": everyday.run_events,
    "delete": everyday.run_delete,
    "infer": requests.run_infer,
    "bench": bench.run_bench,
    "lint": files.run_lint,
    "convert": files.run_convert,
    "conformance": requests.run_conformance,
    "top": reports.run_top,
    "ui": look.run_ui,
    "ui-server": look.run_ui_server,
    "completion": files.run_completion,
}
