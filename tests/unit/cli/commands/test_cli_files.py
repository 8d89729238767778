"""Files that cannot be read, and files that are read although they look odd."""

import resource
import signal
import stat
from pathlib import Path

import pytest

from moorage_cli.ask.inference.request import read_document
from moorage_cli.commands import files, texts
from moorage_cli.printing.failures import Failure


def test_a_file_that_cannot_be_read_is_refused_with_its_name_and_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "TEXT_LIMIT", 1 << 20)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    (tmp_path / "binary").write_bytes(b"\xff\xfea\x00")
    (tmp_path / "large").write_bytes(b"a" * ((1 << 20) + 1))
    reasons = {
        tmp_path / "missing": "no such file or directory",
        tmp_path: "is a directory",
        loop: "too many levels of symbolic links",
        tmp_path / "binary": "the text is not UTF-8",
        tmp_path / "large": "it is larger than 1 MiB",
        Path("/dev/zero"): "it is larger than 1 MiB",
        tmp_path / ("x" * 5000): "file name too long",
    }
    for path, reason in reasons.items():
        with pytest.raises(Failure) as refused:
            texts.read_text(str(path))
        assert str(refused.value) == f"FILE: {path} cannot be read: {reason}"


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "request.json"
    path.write_bytes(b'\xef\xbb\xbf{"inputs": []}')

    assert read_document(texts.read_text(str(path)), "request.json") == {"inputs": []}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "r is empty: must contain a JSON object"),
        ("[1]", "r must contain a JSON object, not [1]"),
        ('{"inputs": 1, "inputs": 2}', "the key 'inputs' twice in one object"),
        ('{"inputs": [{"a": {"b": 1, "b": 1}}]}', "the key 'b' twice in one object"),
        ('{"a":' * 100_000, "a number or the nesting is too large"),
        (f'{{"a": {"9" * 5000}}}', "a number or the nesting is too large"),
    ],
)
def test_a_malformed_request_is_refused(text: str, reason: str) -> None:
    with pytest.raises(Failure) as refused:
        read_document(text, "r")

    assert reason in str(refused.value)


TEXT = "apiVersion: moorage.dev/v1alpha1\nkind: InferenceModel\n"


def test_a_file_that_cannot_be_written_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(TEXT)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(Failure, match=r"a\.yaml cannot be written: file too large"):
            files._write(str(path), TEXT * 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)

    assert path.read_text() == TEXT
    assert list(tmp_path.iterdir()) == [path]


def test_a_written_file_keeps_its_mode_and_stays_behind_its_link(tmp_path: Path) -> None:
    path, link = tmp_path / "a.yaml", tmp_path / "link.yaml"
    path.write_text("a")
    path.chmod(0o640)
    link.symlink_to(path)

    files._write(str(link), "b")

    assert (path.read_text(), link.is_symlink()) == ("b", True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
