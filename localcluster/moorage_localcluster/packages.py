"""Debian packages that the cluster needs, installed without starting their services.

etcd-server would start a system service of its own; a policy that refuses starts stands only while
apt works, and only when there was none before.
"""

import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from moorage_localcluster.layout import ClusterError

# (a file that the package brings, the package)
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
POLICY = Path("/usr/sbin/policy-rc.d")
REFUSE_STARTS = "#!/bin/sh\n# Made by moorage-local while it installs packages.\nexit 101\n"


def missing(full: bool) -> list[str]:
    """Packages whose files are not there."""
    wanted = (*CONTROL_PLANE, *NODE) if full else CONTROL_PLANE
    return [package for file, package in wanted if not Path(file).exists()]


def install(*, full: bool) -> None:
    """Install what is missing.

    Raises:
        ClusterError: Not root, no apt, or apt failed.
    """
    packages = missing(full)
    if not packages:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ClusterError(
            f"these Debian packages are missing and only root can install them with apt-get: "
            f"{' '.join(packages)}"
        )
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with _no_service_starts():
        _apt(["apt-get", "update", "-q"], env)
        _apt(["apt-get", "install", "-qy", "--no-install-recommends", *packages], env)


def _apt(command: list[str], env: dict[str, str]) -> None:
    done = subprocess.run(command, env=env, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise ClusterError(f"`{' '.join(command)}` failed with {done.returncode}; see above")


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
