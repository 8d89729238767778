"""`moorage lint` and `convert`: commands that read files and need no cluster."""

import argparse
import errno
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from moorage_cli.ask.onnx_file import read_onnx
from moorage_cli.commands.model_sources import check_uri
from moorage_cli.commands.shell import Shell
from moorage_cli.commands.texts import named_file, read_text
from moorage_cli.manifests.convert.conversion import ConversionError
from moorage_cli.manifests.convert.texts import Converted, Hints, convert_text, joined
from moorage_cli.manifests.documents import DocumentError
from moorage_cli.manifests.lint import lint
from moorage_cli.printing.failures import Failure, WrongUsage, reason_of
from moorage_cli.printing.report import Report

__all__ = ["run_convert", "run_lint"]


def run_lint(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage lint`."""
    _check_files(given.files)
    tensors = read_onnx(given.model) if given.model else None
    return lint([(name, read_text(name)) for name in given.files], shell.palette, tensors)


def run_convert(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage convert`: no file is written unless all of them can be converted."""
    del shell
    _check_files(given.files)
    if given.uri:
        check_uri(given.uri, "--uri")
    if given.in_place and "-" in given.files:
        raise WrongUsage("--in-place cannot be combined with '-', which is standard input")
    texts = {name: read_text(name) for name in given.files}
    made = {name: _converted(name, text, given.uri) for name, text in texts.items()}
    notes = tuple(f"{name}: {note}" for name, each in made.items() for note in each.notes)
    if given.strict and any(each.has_losses for each in made.values()):
        notes = (*notes, "nothing is written, because --strict allows no lost fields")
        return Report("", {"converted": []}, ok=False, notes=notes)
    if not given.in_place:
        whole = joined([each.text for each in made.values()])
        return Report(whole, whole, ok=True, notes=notes)
    for name, each in made.items():
        if each.is_settings:
            raise WrongUsage(f"--in-place would replace {name}, which the model server reads")
    changed = [name for name, each in made.items() if each.text != texts[name]]
    for name in changed:
        _write(name, made[name].text)
    lines = [f"{name}: {'converted' if name in changed else 'unchanged'}\n" for name in made]
    return Report("".join(lines), {"converted": changed}, ok=True, notes=notes)


def _check_files(names: Sequence[str]) -> None:
    """Refuse to read standard input twice.

    Raises:
        WrongUsage: It is given more than once.
    """
    if names.count("-") > 1:
        raise WrongUsage("FILE: '-', which is standard input, can be given only once")


def _converted(name: str, text: str, uri: str) -> Converted:
    if not text.strip():
        raise Failure(f"{named_file(name, 'FILE')} is empty: must contain a manifest")
    folder = "" if name == "-" else Path(name).absolute().parent.name
    try:
        return convert_text(text, Hints(folder, uri))
    except DocumentError as error:
        raise Failure(f"{name}: is not valid YAML: {error}") from error
    except ConversionError as error:
        raise Failure(f"{name}: {error}") from error


def _write(name: str, text: str) -> None:
    """Replace a file as a whole: one that cannot be written stays as it was.

    Raises:
        Failure: It cannot be written.
    """
    path = Path(name).resolve()
    try:
        if not path.is_file():  # a pipe or a device
            path.write_text(text, encoding="utf-8")
            return
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        number, beside = tempfile.mkstemp(prefix=f".{path.name[:100]}-", dir=path.parent)
        try:
            with os.fdopen(number, "w", encoding="utf-8") as file:
                file.write(text)
            shutil.copymode(path, beside)
            Path(beside).replace(path)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise Failure(f"{name} cannot be written: {reason_of(error)}") from error
