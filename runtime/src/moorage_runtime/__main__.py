"""The command ``moorage-runtime``: settings, logs, event loop, exit status."""

import logging
import os
import sys

import uvloop

from moorage_runtime import app, logs, settings
from moorage_runtime.errors import InvalidConfig

log = logging.getLogger(__name__)

# As of commands that were used wrongly.
_UNUSABLE = 2


def main() -> None:
    """Run the server; exits 0 after a signal, 2 when a setting is unusable, 1 otherwise."""
    status = _run()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    # Worker threads that are stuck in a model would keep the interpreter alive for ever.
    os._exit(status)


def _run() -> int:
    try:
        chosen = settings.parse(sys.argv[1:], os.environ)
        _check_paths(chosen)
    except settings.SettingError as error:
        sys.stderr.write(f"moorage-runtime: {error}\n")
        return _UNUSABLE
    logs.configure(chosen.log_level, chosen.log_format)
    for name in settings.unknown_variables(os.environ):
        log.warning("the variable %s is no setting and has no effect; see --help", name)
    try:
        uvloop.run(app.run(chosen))
    except (app.ListenError, InvalidConfig) as error:
        log.error("%s", error)  # noqa: TRY400 - expected trouble, no trace
        return 1
    return 0


def _check_paths(chosen: settings.Settings) -> None:
    root = chosen.model_repository
    if root is not None and not root.exists():
        raise settings.SettingError(
            f"--model-repository (MOORAGE_MODEL_REPOSITORY) is '{root}', which does not exist: "
            "expected a folder or a model file"
        )


if __name__ == "__main__":
    main()
