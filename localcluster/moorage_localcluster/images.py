"""Images without Docker: the pause image, a base image from debootstrap, and buildah builds.

buildah works in a storage folder of the cluster's own. Builds run in a chroot with the host's
network, and with the host's certificate bundle and pip settings for the length of the build, so
that machines behind a proxy or mirror can build; nothing of that stays in the image.
"""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from moorage_localcluster import mounts, ownership, platforms
from moorage_localcluster.layout import ClusterError, Layout
from moorage_localcluster.processes import run, succeeds, tail
from moorage_localcluster.render import PAUSE_IMAGE

BASE_IMAGE = "localhost/moorage-base:bookworm"
SUITE = "bookworm"
BASE_PACKAGES = "ca-certificates,python3,python3-pip,python3-venv"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
# Files from debootstrap that no image needs.
BASE_WASTE = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
    "var/cache/apt",
    "var/lib/apt/lists",
    "var/log",
)
PASSED_ON = (
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_TRUSTED_HOST",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
)


def buildah(layout: Layout) -> list[str]:
    """The buildah command with the storage of this cluster."""
    return [
        "buildah",
        "--root",
        str(layout.images),
        "--runroot",
        str(layout.run / "buildah"),
        "--storage-driver",
        "overlay",
    ]


def ctr(layout: Layout) -> list[str]:
    """The ctr command for the images of this cluster's kubelet."""
    program, socket = layout.binaries / "ctr", layout.containerd_socket
    return [str(program), "--address", str(socket), "--namespace", "k8s.io"]


def base_image(for_platform: str = "") -> str:
    """The base image of a platform; that of this machine has no suffix; pure."""
    if for_platform in {"", platforms.own()}:
        return BASE_IMAGE
    return f"{BASE_IMAGE}-{platforms.architecture(for_platform)}"


def make_base(layout: Layout, for_platform: str = "") -> str:
    """Build the base image unless it exists, and return its name; concurrent calls build it once.

    Raises:
        ClusterError: The folder is not a cluster's, debootstrap or buildah failed, or this machine
            cannot run programs of the platform.
    """
    claim(layout)
    for_platform = for_platform or platforms.own()
    with ownership.locked(layout.images):
        platforms.enable(for_platform)
        name = base_image(for_platform)
        if not succeeds([*buildah(layout), "inspect", "--type", "image", name]):
            _make_base(layout, for_platform)
        return name


def claim(layout: Layout) -> None:
    """Mark the state folder as a cluster's before building in it."""
    with ownership.locked(layout.state):
        ownership.claim(layout.state, layout.ports)


def _make_base(layout: Layout, for_platform: str) -> None:
    folder = layout.state / "base"
    _remove_tree(folder)
    try:
        _debootstrap(layout, folder, platforms.architecture(for_platform))
        for waste in BASE_WASTE:
            shutil.rmtree(folder / waste, ignore_errors=True)
        # Users of the image must not see the mirror of this machine.
        (folder / "etc" / "apt" / "sources.list").unlink(missing_ok=True)
        container = run([*buildah(layout), "from", "scratch"]).strip()
        run([*buildah(layout), "copy", "--quiet", container, folder, "/"])
        run(
            [
                *buildah(layout),
                "config",
                "--arch",
                platforms.architecture(for_platform),
                "--env",
                "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
                "--env",
                "LANG=C.UTF-8",
                "--cmd",
                "/bin/sh",
                container,
            ]
        )
        run([*buildah(layout), "commit", "--quiet", "--rm", container, base_image(for_platform)])
    finally:
        _remove_tree(folder)


def _debootstrap(layout: Layout, folder: Path, architecture: str) -> None:
    mirror = debian_mirror(Path("/etc/apt"))
    command = [
        "debootstrap",
        f"--arch={architecture}",
        "--variant=minbase",
        f"--include={BASE_PACKAGES}",
        SUITE,
    ]
    try:
        run([*command, folder, mirror])
    except ClusterError as error:
        own_log = folder / "debootstrap" / "debootstrap.log"
        if not own_log.exists():
            raise
        layout.logs.mkdir(parents=True, exist_ok=True)
        kept = layout.logs / own_log.name
        kept.write_bytes(own_log.read_bytes())
        raise ClusterError(f"{error}\nThe log {kept} ends with:\n{tail(kept)}") from error


def _remove_tree(folder: Path) -> None:
    """Remove a folder in which an interrupted debootstrap may have left /proc and /sys mounted."""
    mounts.unmount_all([folder])
    shutil.rmtree(folder, ignore_errors=True)


def debian_mirror(apt: Path) -> str:
    """The Debian mirror that this machine's apt uses for the suite.

    Raises:
        ClusterError: The sources of apt contain none.
    """
    for path in sorted(
        [
            *apt.glob("sources.list.d/*.sources"),
            *apt.glob("sources.list"),
            *apt.glob("sources.list.d/*.list"),
        ]
    ):
        found = parse_mirror(path.read_text(), SUITE)
        if found:
            return found
    raise ClusterError(f"no source in {apt} offers Debian {SUITE}, which the base image needs")


def parse_mirror(text: str, suite: str) -> str:
    """The first address for the suite's main component in a sources file; pure.

    Source: sources.list(5), both formats.

    Returns:
        "" if the file has none.
    """
    for stanza in text.split("\n\n"):
        fields = {
            name.strip().lower(): value.split()
            for name, colon, value in (line.partition(":") for line in stanza.splitlines())
            if colon and not name.startswith(("#", "deb"))
        }
        if (
            "deb" in fields.get("types", [])
            and suite in fields.get("suites", [])
            and "main" in fields.get("components", [])
            and fields.get("enabled", ["yes"]) != ["no"]
            and fields.get("uris")
        ):
            return fields["uris"][0]
    for line in text.splitlines():
        words = re.sub(r"\[.*?\]", " ", line).split()
        if len(words) >= 4 and words[0] == "deb" and words[2] == suite and "main" in words[3:]:
            return words[1]
    return ""


@dataclass(frozen=True, slots=True)
class Build:
    """One image to build.

    Attributes:
        dockerfile: Its Dockerfile.
        context: The folder from which it copies.
        tag: The image's name.
        arguments: Build arguments, NAME=VALUE.
        output: Where the archive for `load` is written.
        platform: The platform of its programs; empty means this machine's.
    """

    dockerfile: Path
    context: Path
    tag: str
    arguments: Sequence[str]
    output: Path
    platform: str = ""


def build(layout: Layout, wanted: Build) -> None:
    """Build an image and write it as an archive; concurrent builds wait.

    Each build mounts the storage folder over itself, and hides the containers of another.

    Raises:
        ClusterError: buildah failed, and its output is already printed; or this machine cannot
            run programs of the platform.
    """
    claim(layout)
    name = qualified(wanted.tag)
    platforms.enable(wanted.platform or platforms.own())
    command: list[str] = [
        *buildah(layout),
        "bud",
        "--isolation",
        "chroot",
        "--network",
        "host",
        "--layers",
        "--pull-never",
        "--file",
        str(wanted.dockerfile),
        "--tag",
        name,
    ]
    if wanted.platform:
        command += ["--platform", wanted.platform]
    for argument in wanted.arguments:
        command += ["--build-arg", argument]
    if CERTIFICATES.exists():
        command += ["--volume", f"{CERTIFICATES}:{CERTIFICATES}:ro"]
        command += ["--build-arg", f"PIP_CERT={CERTIFICATES}"]
    for variable in PASSED_ON:
        if variable in os.environ:
            command += ["--build-arg", f"{variable}={os.environ[variable]}"]
    with ownership.locked(layout.images):
        done = subprocess.run(
            [*command, str(wanted.context)], check=False, stdin=subprocess.DEVNULL
        )
        if done.returncode:
            raise ClusterError(
                f"building {name} from {wanted.dockerfile} failed with exit code "
                f"{done.returncode}; see the output above"
            )
        wanted.output.unlink(missing_ok=True)
        archive = f"docker-archive:{wanted.output}:{name}"
        run([*buildah(layout), "push", "--quiet", name, archive])


def qualified(tag: str) -> str:
    """The name with its registry; as in Docker, the default is docker.io; pure."""
    host, slash, _ = tag.partition("/")
    if slash and (host == "localhost" or "." in host or ":" in host):
        return tag
    return f"docker.io/{tag}"


def is_loopback(reference: str) -> bool:
    """Whether the registry of a name is on this machine and needs no TLS; pure."""
    host = reference.partition("/")[0].rpartition(":")[0] or reference.partition("/")[0]
    return host in {"localhost", "[::1]"} or host.startswith("127.")


def push(layout: Layout, tag: str, digest_file: Path, parts: Sequence[str] = ()) -> None:
    """Push a locally built image to the registry in its name, and write its digest to a file.

    Args:
        layout: Whose storage has the images.
        tag: The image's name.
        digest_file: Where to write the digest.
        parts: Names of built images for different platforms; then the name is that of their index.

    Raises:
        ClusterError: buildah failed: the image does not exist, or the registry refuses it.
    """
    name = qualified(tag)
    verify = "false" if is_loopback(name) else "true"
    words = ["push", "--quiet", f"--tls-verify={verify}", "--digestfile", str(digest_file)]
    with ownership.locked(layout.images):
        if not parts:
            run([*buildah(layout), *words, name, f"docker://{name}"])
            return
        if succeeds([*buildah(layout), "manifest", "inspect", name]):
            run([*buildah(layout), "manifest", "rm", name])
        run([*buildah(layout), "manifest", "create", name, *map(qualified, parts)])
        # in the format of the images
        words += ["--all", "--format", "oci"]
        run([*buildah(layout), "manifest", *words, name, f"docker://{name}"])


def load(layout: Layout, archive: Path) -> None:
    """Import an image archive into the cluster's containerd.

    Raises:
        ClusterError: The file does not exist, or containerd refused it.
    """
    if not archive.is_file():
        raise ClusterError(f"the image archive {archive} does not exist")
    run([*ctr(layout), "images", "import", archive])


def load_pause(layout: Layout) -> None:
    """Build the pause image from its program and load it, unless it exists."""
    listed = run([*ctr(layout), "images", "ls", "-q"])
    if PAUSE_IMAGE in listed.split():
        return
    archive = layout.state / "pause.tar"
    program = (layout.binaries / "pause").read_bytes()
    archive.write_bytes(pause_archive(program, platforms.architecture(platforms.own())))
    load(layout, archive)
    archive.unlink()


def pause_archive(program: bytes, architecture: str) -> bytes:
    """A docker-archive with one layer that contains the program; pure."""
    layer = _tar({"pause": (program, 0o755)})
    config = json.dumps(
        {
            "architecture": architecture,
            "os": "linux",
            "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
            "rootfs": {
                "type": "layers",
                "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"],
            },
        }
    ).encode()
    manifest = json.dumps(
        [{"Config": "config.json", "RepoTags": [PAUSE_IMAGE], "Layers": ["layer.tar"]}]
    ).encode()
    return _tar(
        {
            "layer.tar": (layer, 0o644),
            "config.json": (config, 0o644),
            "manifest.json": (manifest, 0o644),
        }
    )


def _tar(files: dict[str, tuple[bytes, int]]) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for name, (data, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            archive.addfile(entry, io.BytesIO(data))
    return sink.getvalue()
