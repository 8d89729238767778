"""Imports OpenVINO without its telemetry, and shortens its messages.

All code that needs the library imports it from here.
"""

import sys
from typing import Final

# OpenVINO sends telemetry through this package and stores an identifier in the home folder; it
# also works without it. A server must not contact third parties.
sys.modules["openvino_telemetry"] = None  # pyright: ignore[reportArgumentType] # Python's way to mark a module as missing

import openvino as ov  # noqa: E402 - after the line above
from openvino.frontend import FrontEndManager  # noqa: E402 - the same

__all__ = ["FrontEndManager", "Port", "ov", "text_of"]

Port = ov.Output | ov.ConstOutput
# Lines of the library's messages that contain positions in its source code.
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
    """The library's message, without positions in its source code."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line.removeprefix("-- ") for line in lines if line and not line.startswith(_NOISE)]
    return " ".join(told[:3])[:500] or type(error).__name__
