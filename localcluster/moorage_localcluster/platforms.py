"""Builds for another processor: QEMU runs its programs.

    platform -> enable() -> the kernel starts QEMU for its programs (binfmt_misc)

The handler has the flag F, which keeps the interpreter open, so that programs in a chroot find it.
"""

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from moorage_localcluster import packages
from moorage_localcluster.layout import ClusterError
from moorage_localcluster.processes import run

__all__ = ["PLATFORMS", "architecture", "enable", "of_machine", "own"]

# Platform to the machine name of the kernel and QEMU.
PLATFORMS: Final[Mapping[str, str]] = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
HANDLERS: Final = Path("/proc/sys/fs/binfmt_misc")


def own() -> str:
    """The platform of this machine."""
    return of_machine(platform.machine())


def of_machine(machine: str) -> str:
    """The platform for a machine name of the kernel; pure."""
    return next((name for name, each in PLATFORMS.items() if each == machine), f"linux/{machine}")


def architecture(name: str) -> str:
    """The architecture in images, Go and Debian, for a platform; pure."""
    return name.partition("/")[2]


def enable(name: str) -> None:
    """Let the kernel run programs of a platform, until the machine restarts.

    Raises:
        ClusterError: QEMU cannot be installed, or the kernel has no binfmt_misc.
    """
    if name == own():
        return
    handler = HANDLERS / f"qemu-{PLATFORMS[name]}"
    if not handler.exists():
        packages.install_for_emulation()
        if not (HANDLERS / "register").exists():
            run(["mount", "-t", "binfmt_misc", "binfmt_misc", HANDLERS])
        run(["update-binfmts", "--enable", handler.name])
    said = handler.read_text() if handler.exists() else "no handler"
    if not is_usable(said):
        raise ClusterError(
            f"this machine cannot run programs of {name}: {handler} says {said.split()}; it must "
            "be enabled and have the flag F"
        )


def is_usable(handler: str) -> bool:
    """Whether a handler's description is of one that also works in a chroot; pure.

    Source: the kernel's documentation, "Kernel Support for miscellaneous Binary Formats".
    """
    lines = handler.splitlines()
    flags = [line.partition(":")[2] for line in lines if line.startswith("flags:")]
    return lines[:1] == ["enabled"] and any("F" in each for each in flags)
