"""OpenVINO itself, imported so that it reports to nobody, and its messages made readable.

Everything that needs the library takes it from here.
"""

import sys
from typing import Final

# OpenVINO reports its import to its makers through this package, and keeps an identifier in the
# home folder; without it it works the same. A server must not talk to third parties.
sys.modules["openvino_telemetry"] = None  # pyright: ignore[reportArgumentType] # Python's own way to say that it is not there

import openvino as ov  # noqa: E402 - after the line above
from openvino.frontend import FrontEndManager  # noqa: E402 - the same

__all__ = ["FrontEndManager", "Port", "ov", "text_of"]

Port = ov.Output | ov.ConstOutput
# Lines of the library's messages that tell where in its source something was thrown.
_NOISE: Final = (
    "Check '",
    "Exception from",
    "FrontEnd API",
    "Summary:",
    "To facilitate",
    "Failed",
    "[",
)


def text_of(error: Exception) -> str:
    """What the library says, without where in its source it says so."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line.removeprefix("-- ") for line in lines if line and not line.startswith(_NOISE)]
    return " ".join(told[:3])[:500] or type(error).__name__
