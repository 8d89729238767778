"""Files are whole, and left alone while they say the same."""

import stat

from moorage_localcluster import files


def test_a_written_file_has_text_and_mode_and_no_partial_beside_it(tmp_path):
    files.write_whole(tmp_path / "a", "text", 0o600)

    assert (tmp_path / "a").read_text() == "text"
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_an_unchanged_file_is_not_touched(tmp_path):
    path = tmp_path / "kube-proxy.json"
    files.write_changed(path, "same")
    before = path.stat()
    files.write_changed(path, "same")
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    files.write_changed(path, "other")

    assert path.read_text() == "other"
