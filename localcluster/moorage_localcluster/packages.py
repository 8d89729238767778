"""Installs the Debian packages that the cluster needs, without starting their services.

etcd-server would start a system service. A policy refuses this while apt runs, unless the machine
already has such a policy.
"""

import os
import shutil
import subprocess
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path

from moorage_localcluster.layout import ClusterError

# (a file of the package, the package)
CONTROL_PLANE = (("/usr/bin/etcd", "etcd-server"), ("/usr/bin/openssl", "openssl"))
NODE = (
    ("/usr/sbin/runc", "runc"),
    ("/usr/lib/cni/bridge", "containernetworking-plugins"),
    ("/usr/sbin/nft", "nftables"),
    ("/usr/sbin/conntrack", "conntrack"),
    ("/sbin/ip", "iproute2"),
    ("/bin/mount", "mount"),
    ("/usr/bin/socat", "socat"),
    ("/usr/bin/buildah", "buildah"),
    ("/usr/sbin/debootstrap", "debootstrap"),
    ("/usr/bin/curl", "curl"),
    ("/etc/ssl/certs/ca-certificates.crt", "ca-certificates"),
)
EMULATION = (
    ("/usr/bin/qemu-aarch64-static", "qemu-user-static"),
    ("/usr/sbin/update-binfmts", "binfmt-support"),
)
POLICY = Path("/usr/sbin/policy-rc.d")
REFUSE_STARTS = "#!/bin/sh\n# Made by moorage-local while it installs packages.\nexit 101\n"


def missing(*, full: bool) -> list[str]:
    """Packages whose files are missing."""
    return _absent((*CONTROL_PLANE, *NODE) if full else CONTROL_PLANE)


def _absent(wanted: Iterable[tuple[str, str]]) -> list[str]:
    return [package for file, package in wanted if not Path(file).exists()]


def install(*, full: bool) -> None:
    """Install the missing packages.

    Raises:
        ClusterError: Not root, apt-get is missing, or it failed.
    """
    _install(missing(full=full))


def install_for_emulation() -> None:
    """Install what runs programs of another processor, unless it is present.

    Raises:
        ClusterError: As `install`.
    """
    _install(_absent(EMULATION))


def _install(packages: Sequence[str]) -> None:
    if not packages:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ClusterError(
            f"missing Debian packages: {' '.join(packages)}; run this command as root on a "
            "machine with apt-get"
        )
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with _no_service_starts():
        _apt(["apt-get", "update", "-q"], env)
        _apt(["apt-get", "install", "-qy", "--no-install-recommends", *packages], env)


def _apt(command: list[str], env: dict[str, str]) -> None:
    done = subprocess.run(command, env=env, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise ClusterError(
            f"`{' '.join(command)}` failed with exit code {done.returncode}; see the output above"
        )


@contextmanager
def _no_service_starts() -> Generator[None]:
    if POLICY.exists():
        yield
        return
    POLICY.write_text(REFUSE_STARTS)
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)
