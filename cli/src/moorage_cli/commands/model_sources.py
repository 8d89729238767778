"""What a path holds and whether its pickles are trusted; used by `moorage run` and `deploy`."""

import os
from pathlib import Path

from moorage_cli.manifests.model_files import (
    FoundModel,
    find_in_folder,
    find_of_file,
    is_pickle,
)
from moorage_cli.printing.failures import Failure, WrongUsage, reason_of

__all__ = ["check_trust", "find_models"]


def find_models(path: Path, name: str = "") -> list[FoundModel]:
    """The models of a path.

    Raises:
        Failure: The path does not exist, cannot be read, or holds no model.
    """
    try:
        path.stat()
        own = Path(os.path.abspath(path)).name  # noqa: PTH100 - resolve() would follow links
    except FileNotFoundError as error:
        raise Failure(f"PATH: {path} does not exist: must be a model file or a folder") from error
    except (OSError, ValueError) as error:
        raise Failure(f"PATH: {path} cannot be read: {reason_of(error)}") from error
    if not (path.is_file() or path.is_dir()):
        raise Failure(f"PATH: {path} is neither a file nor a folder")
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
