"""What a path holds and whether its pickles are trusted; used by `moorage run` and `deploy`."""

import hashlib
import os
from pathlib import Path

from moorage_cli.manifests import deploying
from moorage_cli.manifests.lint import resource_problems, schemas
from moorage_cli.manifests.model_files import (
    FoundModel,
    find_in_folder,
    find_of_file,
    is_pickle,
)
from moorage_cli.printing.failures import Failure, WrongUsage, reason_of

__all__ = ["check_trust", "check_uri", "files_of", "find_models", "measured", "unchanged_content"]


def find_models(path: Path, name: str = "") -> list[FoundModel]:
    """The models of a path.

    Raises:
        Failure: The path does not exist, cannot be read, or holds no model.
    """
    try:
        size = path.stat().st_size
        own = Path(os.path.abspath(path)).name  # noqa: PTH100 - resolve() would follow links
    except FileNotFoundError as error:
        raise Failure(f"PATH: {path} does not exist: must be a model file or a folder") from error
    except (OSError, ValueError) as error:
        raise Failure(f"PATH: {path} cannot be read: {reason_of(error)}") from error
    if not (path.is_file() or path.is_dir()):
        raise Failure(f"PATH: {path} is neither a file nor a folder")
    if path.is_file() and not size:
        raise Failure(f"PATH: {path} is empty: must be a model file or a folder")
    found = [find_of_file(own)] if path.is_file() else find_in_folder(_files_below(path), own)
    if len(found) == 1:
        (only,) = found
        if only.problem:
            raise Failure(f"PATH: {only.problem}")
        return [FoundModel(name or only.name, only.format, only.file)]
    if name:
        listed = ", ".join(each.name for each in found)
        raise WrongUsage(f"--name: {path} contains several models ({listed}): omit --name")
    return found


def check_trust(file: str, place: str, *, trusted: bool) -> None:
    """Refuse a pickle that nobody trusts.

    Args:
        file: Name of the model file.
        place: Where its code would run, such as `in the model's pods`.
        trusted: Whether the user trusts it.

    Raises:
        Failure: It is a pickle and not trusted.
    """
    if is_pickle(file) and not trusted:
        raise Failure(
            f"{file} is a pickle, which can run any code {place} when it is loaded: add --trusted "
            "if you trust its source, or save the model with skops"
        )


def check_uri(uri: str, argument: str) -> None:
    """Refuse a URI of a model that the API refuses.

    Args:
        uri: The URI.
        argument: The argument that it comes from, for messages.

    Raises:
        WrongUsage: It is invalid.
    """
    scheme, mark, _ = uri.partition("://")
    if not mark or scheme not in deploying.SCHEMES:
        known = ", ".join(f"{each}://" for each in deploying.SCHEMES)
        what = f"scheme {scheme}:// is not supported" if mark else f"{uri!r} is invalid"
        raise WrongUsage(f"{argument}: {what}: must be one of {known}")
    model = deploying.model_of(deploying.Target("model", ""), uri)
    for problem in resource_problems(model, schemas()):
        raise WrongUsage(f"{argument}: {problem.message}")


def files_of(folder: Path) -> dict[str, Path]:
    """All files below a folder, without hidden ones and Python's caches.

    Raises:
        Failure: A folder cannot be read, or is a link to one that contains it.
    """

    def refuse(error: OSError) -> None:
        raise Failure(f"{error.filename} cannot be read: {reason_of(error)}") from error

    found: dict[str, Path] = {}
    for base, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        folders[:] = sorted(
            each for each in folders if not each.startswith(".") and each != "__pycache__"
        )
        for name in folders:
            link = Path(base) / name
            if link.is_symlink() and Path(base).resolve().is_relative_to(link.resolve()):
                raise Failure(f"{link} is a link to a folder that contains it: remove it")
        for name in sorted(names):
            if not name.startswith("."):
                path = Path(base) / name
                found[path.relative_to(folder).as_posix()] = path
    return found


def measured(path: Path) -> tuple[int, str]:
    """Size and SHA-256 of a file.

    Raises:
        Failure: It cannot be read, or is a device or a pipe.
    """
    try:
        if path.exists() and not path.is_file():
            raise Failure(f"{path} is not a file: remove it")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return file.tell(), digest
    except OSError as error:
        raise Failure(f"{path} cannot be read: {reason_of(error)}") from error


def unchanged_content(path: Path, expected: tuple[int, str]) -> bytes:
    """The content of a file, which the name of its place describes.

    Raises:
        Failure: It cannot be read, or has changed since it was measured.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Failure(f"{path} cannot be read: {reason_of(error)}") from error
    if (len(content), hashlib.sha256(content).hexdigest()) != expected:
        raise Failure(f"{path} has changed while it was read: run the command again")
    return content


def _files_below(folder: Path) -> list[str]:
    def refuse(error: OSError) -> None:
        raise Failure(f"PATH: {error.filename} cannot be read: {reason_of(error)}") from error

    found: list[str] = []
    for base, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        below = Path(base).relative_to(folder)
        if len(below.parts) >= 3:
            folders.clear()  # nothing deeper decides what the models are
        found += [(below / name).as_posix() for name in names]
    return found
