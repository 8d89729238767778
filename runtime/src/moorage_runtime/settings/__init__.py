"""Process configuration: flags, environment variables, log format and the number of usable cores.

Code that acts on a setting belongs in the package that it configures.
"""

from moorage_runtime.settings.table import (
    SETTINGS,
    GrpcTransport,
    Setting,
    SettingError,
    Settings,
    parse,
    unknown_variables,
)

__all__ = [
    "SETTINGS",
    "GrpcTransport",
    "Setting",
    "SettingError",
    "Settings",
    "parse",
    "unknown_variables",
]
