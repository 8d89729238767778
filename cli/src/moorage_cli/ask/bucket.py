"""Uploads the files of a model to a bucket with the optional package `obstore`.

Bucket, files of this machine --> **bucket** --> S3, Azure Blob Storage

The user's own rights apply: the variables that the providers' tools read, or what these tools are
logged in with. The pods read the bucket with a Secret or the role of their service account.
"""

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from moorage_cli.ask.bucket_files import send_missing
from moorage_cli.manifests.deploying import Content
from moorage_cli.manifests.stores import Bucket
from moorage_cli.printing.failures import Failure

if TYPE_CHECKING:
    from obstore.store import ObjectStore

__all__ = ["upload_to_bucket"]

# Above this size, a file is uploaded in parts. S3 has at most 10,000 parts of at least 5 MiB.
PART_BYTES = 8 << 20
PARTS = 9_000
# Of a slow line, the parts under way share the time limit of each one.
AT_ONCE = 4
RETRIES = {"max_retries": 4, "retry_timeout": timedelta(seconds=60)}
TOOL_SECONDS = 60
# Variables with which a process gets its rights without a login of the `aws` tool.
AWS_VARIABLES = (
    "AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
)  # fmt: skip
AWS_KEYS = {
    "AccessKeyId": "access_key_id", "SecretAccessKey": "secret_access_key",
    "SessionToken": "session_token",
}  # fmt: skip
ANSWER_LIMIT = 400
# Without credentials, the library asks the virtual machine that it may run on.
INSTANCE_IDENTITY = "169.254.169.254"
LOGINS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or log in with aws sso login",
    "azblob": "set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or log in with az login",
}
STATUS = re.compile(r"status code: ([0-9]{3} [A-Za-z ]+)")
# What the store says, or the cause of a broken connection in the library's debug text.
MESSAGE = re.compile(r"<Message>\s*([^<\n]+)")
CAUSE = re.compile(r'(?:message|error): "([^"]+)"')


def upload_to_bucket(
    bucket: Bucket,
    content: Content,
    paths: dict[str, Path],
    progress: Callable[[int], None],
) -> bool:
    """Upload the files; False if the bucket has them already.

    Args:
        bucket: The bucket and folder.
        content: The files, with their sizes and digests.
        paths: Where they are on this machine.
        progress: Receives the number of bytes sent so far.

    Raises:
        Failure: `obstore` is not installed, the store refuses or does not answer, or a file has
            changed.
    """
    try:
        from obstore.exceptions import BaseError  # noqa: PLC0415 - optional
    except ImportError as error:
        raise Failure(
            "--to: a bucket requires the package obstore: install it with pip install obstore"
        ) from error

    try:
        return _interruptible(lambda: _upload(bucket, content, paths, progress))
    except (BaseError, OSError, ValueError) as error:
        raise Failure(f"--to: {bucket.uri}: {_words(bucket, error)}") from error


def _upload(
    bucket: Bucket,
    content: Content,
    paths: dict[str, Path],
    progress: Callable[[int], None],
) -> bool:
    store = _store(bucket)
    return send_missing(
        bucket.folder, content, paths, progress, partial(_is_there, store), partial(_put, store)
    )


def _put(store: "ObjectStore", key: str, size: int, data: Iterator[bytes]) -> None:
    import obstore  # noqa: PLC0415 - optional

    is_large = size > PART_BYTES
    obstore.put(
        store,
        key,
        data if is_large else b"".join(data),
        use_multipart=is_large,
        chunk_size=max(PART_BYTES, size // PARTS),
        max_concurrency=AT_ONCE,
    )


def _is_there(store: "ObjectStore", key: str, size: int) -> bool:
    """Whether an object has this size."""
    import obstore  # noqa: PLC0415 - optional
    from obstore.exceptions import BaseError  # noqa: PLC0415

    try:
        return obstore.head(store, key)["size"] == size
    except (BaseError, FileNotFoundError):
        return False  # a user who may only write gets no answer: the upload shows what is wrong


def _interruptible(work: Callable[[], bool]) -> bool:
    """Do it in a thread: an interrupt does not reach the library while it waits for a store."""
    done: Future[bool] = Future()

    def do() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            done.set_exception(error)

    threading.Thread(target=do, daemon=True).start()
    return done.result()


def _store(bucket: Bucket) -> "ObjectStore":
    from obstore.store import AzureStore, S3Store  # noqa: PLC0415 - optional

    environment = os.environ
    if bucket.scheme == "s3":
        options, endpoint = _s3_options(bucket, environment)
        return S3Store(bucket.bucket, **options, **_client(endpoint))
    options, endpoint = _azure_options(bucket, environment)
    return AzureStore(bucket.bucket, **options, **_client(endpoint))


def _client(endpoint: str) -> dict[str, Any]:
    is_plain = endpoint.startswith("http://")
    options = {"allow_http": is_plain, "connect_timeout": "10s", "timeout": "600s"}
    return {"client_options": options, "retry_config": RETRIES}


def _s3_options(bucket: Bucket, environment: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    variables = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    endpoint = bucket.endpoint or next(filter(None, map(environment.get, variables)), "")
    options: dict[str, Any] = {"endpoint": endpoint} if endpoint else {}
    if bucket.region:
        options["region"] = bucket.region
    if not any(map(environment.get, AWS_VARIABLES)):
        options |= _aws_login()
    return options, endpoint


def _aws_login() -> dict[str, str]:
    """What the user's `aws` tool is logged in with; empty without the tool or a login."""
    command = ["aws", "configure", "export-credentials", "--format", "process"]
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=TOOL_SECONDS)  # noqa: S603
        found = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    return {AWS_KEYS[name]: found[name] for name in AWS_KEYS if found.get(name)}


def _azure_options(bucket: Bucket, environment: Mapping[str, str]) -> tuple[dict[str, Any], str]:
    endpoint = bucket.endpoint or environment.get("AZURE_STORAGE_SERVICE_ENDPOINT", "").rstrip("/")
    options: dict[str, Any] = {"account_name": bucket.account}
    if endpoint:
        host = urlsplit(endpoint).netloc
        is_own = host.partition(".")[0] == bucket.account
        options["endpoint"] = endpoint if is_own else f"{endpoint}/{bucket.account}"
    if key := environment.get("AZURE_STORAGE_KEY"):
        options["account_key"] = key
    # only used without another credential, and instead of the identity of a virtual machine
    if shutil.which("az"):
        options["use_azure_cli"] = True
    return options, endpoint


def _words(bucket: Bucket, error: BaseException) -> str:
    """The cause of an error, without what the library adds for its developers."""
    text = str(error)
    if INSTANCE_IDENTITY in text:
        return f"no credentials: {LOGINS[bucket.scheme]}"
    status, message = STATUS.search(text), MESSAGE.search(text) or CAUSE.search(text)
    words = [found[1] for found in (status, message) if found]
    return ": ".join(words or [text.partition("\n")[0]])[:ANSWER_LIMIT]
