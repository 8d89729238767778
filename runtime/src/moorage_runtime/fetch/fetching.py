"""The whole of one fetch: list, check, download, unpack, publish. Decides nothing of its own.

A fetch that failed is begun again by the kubelet; what it had downloaded is still there.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from moorage_runtime.fetch.amounts import in_bytes
from moorage_runtime.fetch.archive_rules import Budget, is_archive
from moorage_runtime.fetch.archives import unpack, unpack_layer
from moorage_runtime.fetch.clock import Stop
from moorage_runtime.fetch.credentials import Credentials
from moorage_runtime.fetch.download import Download, Stopped, no_space
from moorage_runtime.fetch.entries import Entry, Listing
from moorage_runtime.fetch.progress import Progress
from moorage_runtime.fetch.retries import persistently
from moorage_runtime.fetch.source import OciSource, parse
from moorage_runtime.fetch.stores import make_store
from moorage_runtime.fetch.volume import Volume
from moorage_runtime.fetch.web import Web

__all__ = ["fetch", "shown"]

log = logging.getLogger(__name__)

# Stores serve a few connections faster than one, and many no faster than a few.
CONNECTIONS = 8


def fetch(uri: str, root: Path, environment: Mapping[str, str], size_limit: int = 0) -> None:
    """Put the model of a URI onto a volume, below `model`.

    Args:
        uri: What to fetch.
        root: The volume.
        environment: The process's variables, with the model's Secret in them.
        size_limit: Bytes that the volume may hold, 0: what its file system can.

    Raises:
        FetchError: It cannot be fetched; nothing of it is below `model` then.
    """
    source = parse(uri)
    volume = Volume(root, size_limit)
    if volume.holds(uri):
        log.info("the volume has %s already, whole and verified", shown(uri))
        return
    credentials = Credentials(environment)
    web = Web(credentials.text("ca.crt"))
    store = make_store(source, web, credentials, environment)
    stop = Stop()
    log.info("looking for %s", shown(uri))
    listing = persistently(store.listing, stop.pause, lambda: 0)
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
        keep = source.path if isinstance(source, OciSource) else ""
        _stage(listing, wholes, volume, keep)
        volume.publish(uri, listing.revision)
    except OSError as error:
        raise no_space(error) from error
    log.info("%s is here: %s in %d files, verified", shown(uri), size, count)


def shown(uri: str) -> str:
    """The URI as in a log: the query of a web address may be a secret."""
    return uri.partition("?")[0] if uri.startswith("https://") else uri


def _download_all(download: Download, entries: Sequence[Entry], stop: Stop) -> list[Path]:
    """The files, in the order of the entries; the first failure ends them all."""
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


def _stage(listing: Listing, wholes: Sequence[Path], volume: Volume, keep: str) -> None:
    """Build the model's folder from the verified files.

    They stay where they are until the model is published, so that a container that is ended in
    between has them again; a second name for the same bytes takes no room.
    """
    budget = Budget(max(volume.free_bytes(), 0))
    alone = len(listing.entries) == 1
    for entry, whole in zip(listing.entries, wholes, strict=True):
        target = volume.staging / entry.path
        if entry.layer:
            unpack_layer(whole, entry.path, volume.staging, budget, keep)
        elif alone and is_archive(entry.path):
            log.info("unpacking %s", entry.path)
            unpack(whole, entry.path, volume.staging, budget)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(whole, target)
