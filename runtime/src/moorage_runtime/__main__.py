"""The command ``moorage-runtime``: settings, logs, event loop, exit status.

    settings -> this process serves | supervisor -> this command again, as a worker

Large imports are deferred until the role is known: a supervisor needs no tensors.
"""

import asyncio
import contextlib
import io
import logging
import os
import sys

from moorage_runtime import settings
from moorage_runtime.settings import Settings, cores, logs
from moorage_runtime.values.errors import DeviceLost, InvalidConfig, ListenError
from moorage_runtime.workers import supervisor

log = logging.getLogger(__name__)

# Status of invalid usage.
_UNUSABLE = 2
_STDOUT, _STDERR = 1, 2
# OpenBLAS belongs to numpy, OpenMP to scikit-learn, XGBoost and LightGBM.
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


def main() -> None:
    """Run the server; exits with 0 after a signal, 2 for an invalid setting, otherwise 1."""
    _open_missing_streams()
    # without it, what a model prints would appear in the log only once 8 KiB have gathered
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    status = _run()
    _end_processes()
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        # a model may have replaced it by a file that is closed
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    # Worker threads that are stuck in a model would keep the interpreter alive forever.
    os._exit(status)


def _end_processes() -> None:
    """End the processes that models started with multiprocessing; the interpreter would do so."""
    if "multiprocessing" in sys.modules:
        for process in sys.modules["multiprocessing"].active_children():
            process.kill()


def _open_missing_streams() -> None:
    """Open the standard streams that the caller has closed.

    Otherwise the event loop gets their numbers for its own descriptors, and ends the process with
    an assertion when it closes them.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        os.set_inheritable(descriptor, True)  # noqa: FBT003 - positional only
    os.close(descriptor)
    for number, name in ((_STDOUT, "stdout"), (_STDERR, "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w"))


def _run() -> int:
    try:
        chosen = settings.parse(sys.argv[1:], os.environ)
        _check_paths(chosen)
    except settings.SettingError as error:
        sys.stderr.write(f"moorage-runtime: {error}\n")
        return _UNUSABLE
    logs.configure(chosen.log_level, chosen.log_format)
    for name in settings.unknown_variables(os.environ):
        log.warning("the variable %s is not a setting and has no effect; see --help", name)
    link = os.environ.get(supervisor.LINK_VARIABLE)
    workers = chosen.workers or cores.usable()
    try:
        if link is None and workers > 1:
            return asyncio.run(supervisor.run(workers, chosen, sys.argv[1:]))
        _serve(chosen, None if link is None else int(link))
    except (DeviceLost, ListenError, InvalidConfig, ConnectionError) as error:
        log.error("%s", error)  # noqa: TRY400 - an expected error, without a trace
        return 1
    return 0


def _serve(chosen: Settings, link: int | None) -> None:
    # numpy's library starts one thread per core of the host by default
    for variable in _THREADS:
        os.environ.setdefault(variable, str(chosen.threads or cores.usable()))
    import uvloop  # noqa: PLC0415 - see the module's docstring

    from moorage_runtime import app  # noqa: PLC0415 - the same

    uvloop.run(app.run(chosen, link))


def _check_paths(chosen: settings.Settings) -> None:
    root = chosen.model_repository
    if root is None:
        return
    problem = ""
    try:
        if not root.exists():
            problem = "does not exist: must be a folder or a model file"
    except OSError as error:
        problem = (
            f"cannot be read: {error.strerror}: the server runs as user {os.geteuid()} and group "
            f"{os.getegid()}"
        )
    if problem:
        raise settings.SettingError(
            f"--model-repository (MOORAGE_MODEL_REPOSITORY): '{root}' {problem}"
        )


if __name__ == "__main__":
    main()
