"""The command `moorage-operator`: parse the settings, find the API server, run.

What cannot be used ends the process with one sentence and status 2, before anything is touched.
"""

import os
import sys
from importlib import metadata

import uvloop

from . import heap, logs, settings
from .app import App
from .kube import auth


def main() -> int:
    """Run the operator; the exit status."""
    version = metadata.version("moorage-operator")
    try:
        parsed = settings.parse(sys.argv[1:], os.environ, version=version)
        access = auth.find(os.environ)
        auth.ssl_context(access)
    except (settings.SettingsError, auth.AccessError) as error:
        sys.stderr.write(f"moorage-operator: {error}\n")
        return 2
    heap.set_up()
    logs.configure(parsed.log_format, parsed.log_level)
    return uvloop.run(_run(parsed, access, version))


async def _run(parsed: settings.Settings, access: auth.Access, version: str) -> int:
    return await App(parsed, access, version).run()


if __name__ == "__main__":
    sys.exit(main())
