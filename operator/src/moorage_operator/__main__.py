"""The command `moorage-operator`: parses the settings, finds the API server, and runs the
operator.

An invalid setting ends the process with a message and status 2.
"""

import os
import sys
from importlib import metadata

import uvloop

from . import settings
from .app import App
from .kube import auth
from .process import logs


def main() -> int:
    """Run the operator and return its exit status."""
    version = metadata.version("moorage-operator")
    try:
        parsed = settings.parse(sys.argv[1:], os.environ, version=version)
        access = auth.find(os.environ)
        auth.ssl_context(access)
    except (settings.SettingsError, auth.AccessError) as error:
        sys.stderr.write(f"moorage-operator: {error}\n")
        return 2
    logs.configure(parsed.log_format, parsed.log_level)
    return uvloop.run(_run(parsed, access, version))


async def _run(parsed: settings.Settings, access: auth.Access, version: str) -> int:
    return await App(parsed, access, version).run()


if __name__ == "__main__":
    sys.exit(main())
