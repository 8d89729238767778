"""Runs one fetch: lists, checks, downloads, unpacks and publishes. Makes no decisions of its own.

    URI -> source -> store.listing() -> [Entry] -> select -> download -> unpack -> place
    text   pure      one class per store  plain    pure      resumable   safe      one rename

Every store returns the same plain value, a list of files with URLs, and one loop downloads them.
So resuming, verification, retries and progress are the same for every scheme. A failure is one
message for the user, `FetchError`.

After a failure, the kubelet restarts the fetch, which reuses the files that were downloaded
before.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

from moorage_runtime.fetch.clock import Stop
from moorage_runtime.fetch.decide.amounts import in_bytes
from moorage_runtime.fetch.decide.archive_rules import Budget, is_archive
from moorage_runtime.fetch.decide.credentials import Credentials
from moorage_runtime.fetch.decide.entries import Entry, Listing
from moorage_runtime.fetch.decide.failures import NotFound
from moorage_runtime.fetch.decide.selection import ALL_FILES, Selection, select
from moorage_runtime.fetch.decide.source import OciSource, parse
from moorage_runtime.fetch.stores.choice import make_store
from moorage_runtime.fetch.transfer.archives import decompress, unpack, unpack_layer
from moorage_runtime.fetch.transfer.download import Download, Stopped, no_space
from moorage_runtime.fetch.transfer.progress import Progress
from moorage_runtime.fetch.transfer.pruning import prune
from moorage_runtime.fetch.transfer.retries import persistently
from moorage_runtime.fetch.transfer.volume import Volume
from moorage_runtime.fetch.web import Web

__all__ = ["fetch", "shown"]

log = logging.getLogger(__name__)

# A few connections are faster than one for most stores; more are rarely faster.
CONNECTIONS = 8


def fetch(
    uri: str,
    root: Path,
    environment: Mapping[str, str],
    *,
    size_limit: int = 0,
    selection: Selection = ALL_FILES,
) -> None:
    """Download a model to the folder `model` of a volume.

    Args:
        uri: URI of the model.
        root: The volume.
        environment: The process's variables, which include the model's Secret.
        size_limit: Maximum size of the volume in bytes; 0 is the size of its file system.
        selection: The files of the model to fetch.

    Raises:
        FetchError: The download failed; the folder `model` does not contain any part of it.
    """
    source = parse(uri)
    volume = Volume(root, size_limit)
    if volume.holds(uri, selection):
        log.info("%s is already on the volume, complete and verified", shown(uri))
        return
    credentials = Credentials(environment)
    web = Web(credentials.text("ca.crt"))
    store = make_store(source, web, credentials, environment)
    stop = Stop()
    log.info("looking for %s", shown(uri))
    found = persistently(store.listing, stop.pause, lambda: 0)
    keep = source.path if isinstance(source, OciSource) else ""
    selection = replace(selection, folder=keep)
    archive = len(found.entries) == 1 and is_archive(found.entries[0].path)
    listing = found if archive else select(found, selection, shown(uri))
    try:
        volume.prepare()
        volume.check_room(listing.known_bytes, {entry.part_name for entry in listing.entries})
        at = f" at {listing.revision}" if listing.revision else ""
        size, count = in_bytes(listing.known_bytes), len(listing.entries)
        log.info("downloading %s in %d files%s", size, count, at)
        progress = Progress(listing.known_bytes, count)
        room = max(volume.free_bytes(), 0)
        download = Download(store, web, volume.parts, progress, stop, room)
        wholes = _download_all(download, listing.entries, stop)
        _stage(listing, wholes, volume, keep, archive=archive)
        if archive or any(entry.layer for entry in listing.entries):
            if not any(path.is_file() for path in volume.staging.rglob("*")):
                advice = "check the path; symbolic links are left out" if keep else "check the URI"
                raise NotFound(f"{shown(uri)} contains no files: {advice}")
            prune(volume.staging, selection, shown(uri))
        volume.publish(uri, selection, listing.revision)
    except OSError as error:
        raise no_space(error) from error
    log.info("downloaded and verified %s: %s in %d files", shown(uri), size, count)


def shown(uri: str) -> str:
    """The URI for a log: the query of a web address may be a secret."""
    return uri.partition("?")[0] if uri.startswith("https://") else uri


def _download_all(download: Download, entries: Sequence[Entry], stop: Stop) -> list[Path]:
    """Download the files; the result has the order of the entries, and the first failure stops
    all.
    """
    with ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="download") as pool:
        futures = [pool.submit(download.fetch, entry) for entry in entries]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
        failed = [error for future in done if (error := future.exception())]
        for error in failed:
            if not isinstance(error, Stopped):
                raise error
    return [future.result() for future in futures]


def _stage(
    listing: Listing, wholes: Sequence[Path], volume: Volume, keep: str, *, archive: bool
) -> None:
    """Build the model's folder from the verified files.

    The files stay in place until the model is published, so that a container that is stopped
    before has them again; hard links need no extra space.
    """
    budget = Budget(max(volume.free_bytes(), 0))
    for entry, whole in zip(listing.entries, wholes, strict=True):
        target = volume.staging / entry.path
        if entry.layer:
            unpack_layer(whole, entry.path, volume.staging, budget, keep)
        elif archive:
            log.info("unpacking %s", entry.path)
            unpack(whole, entry.path, volume.staging, budget)
        elif entry.gzip:
            decompress(whole, entry.path, target, budget)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(whole, target)
