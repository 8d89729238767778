"""A web server with all kinds of failures: resuming, refusals and messages."""

import gzip
import hashlib
import io
import os
import subprocess
import tarfile
import zipfile

import pytest

from support.file_server import Route, file_server

pytestmark = [pytest.mark.conformance]

BIG = os.urandom(2_000_000)


def tar(members: dict[str, bytes], mode: str = "w:gz") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:
        for name, body in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
    return made.getvalue()


def tar_of(info: tarfile.TarInfo) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        archive.addfile(info)
    return made.getvalue()


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


TWO = tar({"first": b"x", "second": b"y"}, "w")


def zipped(members: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    return made.getvalue()


def test_a_file_with_a_checksum_is_verified(secure, fetch, trusted):
    secure.routes["/m/model.onnx"] = Route(BIG)
    digest = hashlib.sha256(BIG).hexdigest()

    done = fetch(f"{secure.url}/m/model.onnx#sha256={digest}", trusted)

    assert done.files == {"model.onnx": BIG}, done.log


def test_a_wrong_checksum_is_reported_with_the_expected_one(secure, fetch, trusted):
    secure.routes["/model.onnx"] = Route(b"weights")
    wanted, found = "0" * 64, hashlib.sha256(b"weights").hexdigest()

    done = fetch(f"{secure.url}/model.onnx#sha256={wanted}", trusted)

    assert done.status == 1
    assert f"sha256:{wanted}" in done.message
    assert f"sha256:{found}" in done.message
    assert not (done.volume / "model").exists()


def test_an_interrupted_download_resumes(secure, fetch, trusted):
    secure.routes["/model.onnx"] = Route(BIG, etag='"one"', cuts=[900_000, 600_000])

    done = fetch(f"{secure.url}/model.onnx", trusted)

    assert done.files == {"model.onnx": BIG}, done.log
    assert secure.sent("/model.onnx") < len(BIG) + 3 * 65536
    ranges = [each.headers.get("range") for each in secure.requests[1:]]
    assert ranges[0] is None
    assert all(range_ and range_ != "bytes=0-0" for range_ in ranges[1:])


def test_without_a_version_an_interrupted_download_starts_again(secure, fetch, trusted):
    secure.routes["/model.onnx"] = Route(BIG, cuts=[900_000])

    done = fetch(f"{secure.url}/model.onnx", trusted)

    assert done.files == {"model.onnx": BIG}, done.log
    assert secure.sent("/model.onnx") >= len(BIG) + 800_000


def test_without_ranges_an_interrupted_download_starts_again(secure, fetch, trusted):
    secure.routes["/model.onnx"] = Route(BIG, etag='"one"', ranges=False, cuts=[0, 900_000])

    done = fetch(f"{secure.url}/model.onnx", trusted)

    assert done.files == {"model.onnx": BIG}, done.log


def test_temporary_failures_are_retried(secure, fetch, trusted):
    secure.routes["/model.onnx"] = Route(b"weights", failures=[503, 429, 500])

    done = fetch(f"{secure.url}/model.onnx", trusted)

    assert done.files == {"model.onnx": b"weights"}
    assert done.log.count("retrying in") == 3


def test_an_empty_file_is_downloaded(secure, fetch, trusted):
    secure.routes["/model.py"] = Route(b"")

    assert fetch(f"{secure.url}/model.py", trusted).files == {"model.py": b""}


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (404, "does not exist"),
        (410, "does not exist"),
        (403, "is denied with status 403"),
        (400, "status 400"),
    ],
)
def test_permanent_failures_are_not_retried(secure, fetch, trusted, status, sentence):
    secure.routes["/model.onnx"] = Route(failures=[status] * 9)

    done = fetch(f"{secure.url}/model.onnx", trusted)

    assert done.status == 1
    assert sentence in done.message
    assert len(secure.requests) == 1


def test_credentials_are_sent_only_to_their_own_host(secure, fetch, trusted, certificate):
    with file_server(certificate) as other:
        other.routes["/cdn"] = Route(b"weights")
        secure.routes["/model.onnx"] = Route(location=f"{other.url}/cdn")

        done = fetch(f"{secure.url}/model.onnx", {**trusted, "token": "very-secret"})

    assert done.files == {"model.onnx": b"weights"}, done.log
    assert secure.requests[0].headers["authorization"] == "Bearer very-secret"
    assert all("authorization" not in each.headers for each in other.requests)


def test_a_user_and_a_password_are_sent(secure, fetch, trusted):
    secure.routes["/model.onnx"] = Route(b"weights", authorization="Basic YW5uOnB3")

    assert fetch(
        f"{secure.url}/model.onnx", {**trusted, "username": "ann", "password": "pw"}
    ).files
    other = fetch(f"{secure.url}/model.onnx?again", {**trusted, "token": "other"})

    assert "is denied with status 401" in other.message
    assert "check the credentials in the Secret" in other.message
    assert "other" not in other.log.replace("another", "")


def test_a_redirect_to_http_is_not_followed(secure, fetch, trusted):
    secure.routes["/model.onnx"] = Route(location="http://127.0.0.1:9/model.onnx")

    done = fetch(f"{secure.url}/model.onnx", trusted)

    assert "redirects from https to http" in done.message


def test_a_redirect_loop_ends(secure, fetch, trusted):
    secure.routes["/model.onnx"] = Route(location="/model.onnx")
    running = fetch.start(f"{secure.url}/model.onnx", trusted)

    running.wait_log("redirects too often")


def test_an_untrusted_certificate_is_reported(secure, fetch):
    secure.routes["/model.onnx"] = Route(b"weights")

    done = fetch(f"{secure.url}/model.onnx")

    assert "self-signed certificate" in done.message
    assert "ca.crt" in done.message
    assert not secure.requests


def test_the_query_of_a_url_is_never_logged(secure, fetch, trusted):
    secure.routes["/model.onnx"] = Route(b"weights")

    good = fetch(f"{secure.url}/model.onnx?signature=very-secret", trusted)
    bad = fetch(f"{secure.url}/absent.onnx?signature=very-secret", trusted)

    assert (good.status, bad.status) == (0, 1)
    assert "very-secret" not in good.log + bad.log + bad.message


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_tar_archive_is_unpacked(secure, fetch, trusted, mode):
    members = {"1/model.onnx": b"weights", "./labels.txt": b"setosa"}
    secure.routes["/iris.tar"] = Route(tar(members, mode))

    done = fetch(f"{secure.url}/iris.tar", trusted)

    assert done.files == {"1/model.onnx": b"weights", "labels.txt": b"setosa"}, done.log


def test_a_hard_link_in_a_tar_archive_is_the_same_file(secure, fetch, trusted, tmp_path):
    """`tar --dereference` writes them for symbolic links to the same file."""
    cache = tmp_path / "cache"
    for name in ("iris/1", "blobs"):
        (cache / name).mkdir(parents=True)
    (cache / "blobs" / "1").write_bytes(b"weights")
    for name in ("a.bin", "model.onnx"):
        (cache / "iris" / "1" / name).symlink_to("../../blobs/1")
    command = ["tar", "--create", "--dereference", f"--directory={cache}", "iris"]
    made = subprocess.run(command, capture_output=True, check=True).stdout
    secure.routes["/iris.tar"] = Route(made)

    done = fetch(f"{secure.url}/iris.tar", trusted)

    expected = {"iris/1/a.bin": b"weights", "iris/1/model.onnx": b"weights"}
    assert done.files == expected, done.log


def test_a_zip_is_unpacked(secure, fetch, trusted):
    secure.routes["/iris.zip"] = Route(zipped({"1/": b"", "1/model.onnx": b"weights"}))

    assert fetch(f"{secure.url}/iris.zip", trusted).files == {"1/model.onnx": b"weights"}


@pytest.mark.parametrize(
    ("file", "body", "sentence"),
    [
        ("a.tgz", tar({"../evil": b"x"}), "outside of the archive's own folder"),
        ("a.tgz", tar({"/etc/evil": b"x"}), "outside of the archive's own folder"),
        ("a.tgz", tar({"a/../../evil": b"x"}), "outside of the archive's own folder"),
        ("a.zip", zipped({"../evil": b"x"}), "outside of the archive's own folder"),
        ("a.zip", zipped({"..\\evil": b"x"}), "has a member '..\\\\evil' with a backslash"),
        ("a.tgz", tar_of(link("model.onnx", "/etc/passwd")), "a symbolic link or a device"),
        ("a.tgz", tar_of(link("m", "/etc/passwd", tarfile.LNKTYPE)), "a hard link to '/etc/pass"),
        ("a.tgz", tar_of(link("m", "../../log", tarfile.LNKTYPE)), "a hard link to '../../log'"),
        ("a.tgz", tar_of(link("m", "m", tarfile.LNKTYPE)), "a hard link to 'm'"),
        ("a.tgz", tar_of(link("m", "", tarfile.FIFOTYPE)), "a symbolic link or a device"),
        ("a.tgz", tar({"a": b"x", "a/b": b"y"}), "both as a file and as a folder"),
        ("a.tgz", tar({}), "a.tgz contains no files: check the URI"),
        ("a.tgz", b"not an archive", "is not a tar archive"),
        ("a.zip", b"not an archive", "is not a zip"),
        ("a.tgz", tar({"a": os.urandom(90_000)})[:60_000], "is not a tar archive"),
        ("a.tgz", tar({"a": b"x"})[:-4], "ended before the end-of-stream marker"),
        ("a.tgz", tar({"a": b"x"})[:-8] + bytes(8), "CRC check failed"),
        ("a.tar", TWO.replace(b"second", b"Second"), "the header of a member is invalid"),
        ("a.tar", TWO[:1100], "the header of a member is invalid or incomplete"),
        ("a.tgz", tar({"bomb": bytes(60_000_000)}), "the free space on the volume"),
        ("a.tgz", gzip.compress(tar({}, "w") + bytes(60_000_000)), "the free space on the volume"),
        ("a.zip", zipped({"bomb": bytes(60_000_000)}), "the free space on the volume"),
    ],
    ids=[
        "parent", "root", "parent in the middle", "zip parent", "zip backslash", "symbolic link",
        "hard link", "hard link outside", "hard link to itself", "pipe",
        "file and folder", "empty tar", "no tar", "no zip", "half a tar",
        "tar without its end", "tar with a wrong checksum", "tar with a wrong header",
        "half a header", "tar bomb", "tar bomb after the last member", "zip bomb",
    ],
)  # fmt: skip
def test_an_invalid_archive_is_refused(secure, fetch, trusted, file, body, sentence):
    secure.routes[f"/{file}"] = Route(body)

    done = fetch(f"{secure.url}/{file}", trusted, "--size-limit", "50Mi")

    assert done.status == 1
    assert sentence in done.message
    assert not (done.volume / "model").exists()
    assert not list(done.volume.parent.glob("evil*"))


def test_an_archive_without_a_version_is_downloaded_again_if_it_was_invalid(
    secure, fetch, trusted
):
    secure.routes["/a.tar"] = Route(b"not an archive")
    before = fetch(f"{secure.url}/a.tar", trusted)
    secure.routes["/a.tar"] = Route(TWO)

    after = fetch(f"{secure.url}/a.tar", trusted)

    assert before.status == 1
    assert after.files == {"first": b"x", "second": b"y"}, after.log


def test_a_model_larger_than_the_volume_is_not_downloaded(secure, fetch, trusted):
    secure.routes["/model.onnx"] = Route(BIG)

    done = fetch(f"{secure.url}/model.onnx", trusted, "--size-limit", "1Mi")

    assert "the model has 1.9 MiB" in done.message
    assert "raise model.download.sizeLimit" in done.message
    assert secure.sent("/model.onnx") == 0


def test_a_slow_server_is_retried_and_reported(secure, fetch, trusted):
    secure.routes["/model.onnx"] = Route(BIG[:700_000], pause=0.6)

    done = fetch(f"{secure.url}/model.onnx", trusted)

    assert done.files == {"model.onnx": BIG[:700_000]}
    assert "of 683.6 KiB (" in done.log


@pytest.mark.parametrize(
    ("uri", "sentence"),
    [
        ("https://127.0.0.1/", "it must end with a file name"),
        ("https://ann:pw@127.0.0.1/a", "put them in a Secret"),
        ("https://127.0.0.1/a#sha256=1", "64 lower-case hexadecimal digits"),
        ("http://127.0.0.1/a", "gs or hf or https or oci or s3"),
        ("/mnt/model", "gs or hf or https or oci or s3"),
    ],
)
def test_an_invalid_uri_is_refused(fetch, uri, sentence):
    done = fetch(uri)

    assert done.status == 1
    assert sentence in done.message
    assert "pw" not in done.log


@pytest.mark.parametrize("words", [["--volume", "/absent"], ["--size-limit", "5 apples"]])
def test_invalid_usage_exits_with_2(fetch, words):
    assert fetch("s3://a/b", {}, *words).status == 2
