"""`moorage ui` and `moorage ui-server`: the page on the user's machine, and in a cluster.

The first one acts with the rights of the user's kubeconfig, the other one with those of the token
that each request has.
"""

import argparse
import ssl
import webbrowser
from collections.abc import Callable, Iterator
from functools import partial
from os import environ
from pathlib import Path

from moorage_cli.ask.api_failures import Forbidden, Unauthenticated
from moorage_cli.ask.cluster import Cluster, TokenAccount
from moorage_cli.ask.interrupts import interrupted_by_signals
from moorage_cli.commands.page_actions import page_actions
from moorage_cli.commands.shell import Shell
from moorage_cli.page.feed import Change, Feed
from moorage_cli.page.local_access import HOST, LocalAccess
from moorage_cli.page.server import PageServer
from moorage_cli.page.token_access import Account, TokenAccess
from moorage_cli.printing.failures import Failure, reason_of
from moorage_cli.printing.report import Report

__all__ = ["run_ui", "run_ui_server"]


def run_ui(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage ui`: returns when the user ends it."""
    cluster = shell.connect(given)
    namespace = given.namespace or None
    try:  # report a failure here rather than in a browser
        cluster.models(namespace)
    except Forbidden as refusal:
        if namespace is not None:
            raise
        raise Failure(f"{refusal}: set --namespace to one that you may read") from refusal

    def changes() -> Iterator[Change]:
        return shell.connect(given).feed(namespace)

    feed = Feed(changes)
    actions = page_actions(shell, lambda: shell.connect(given))
    access = LocalAccess(cluster.place, feed, actions)
    server = PageServer(HOST, given.port, access)
    url = access.url(server.port)
    shell.show(Report(f"{url}\nPress Ctrl-C to end.\n", {}, ok=True))
    return _served(server, feed.close, "" if given.no_browser else url)


def run_ui_server(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage ui-server`: returns when the process is ended."""
    address = _api_server()
    _check_authorities(given.api_server_ca)
    access = TokenAccess(partial(_account, shell, address, given.api_server_ca))
    server = PageServer(given.listen, given.port, access)
    shell.show(Report(f"The page listens on port {server.port}.\n", {}, ok=True))
    return _served(server, access.close)


def _served(server: PageServer, close: Callable[[], None], url: str = "") -> Report:
    """Serve until the process is interrupted, then close; opens the URL in a browser, if any."""
    try:
        with interrupted_by_signals():
            if url:
                webbrowser.open(url)
            server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        return Report("", {}, ok=True)
    finally:
        close()
        server.server_close()
    raise AssertionError("unreachable")


def _api_server() -> str:
    """The URL of the API server, from the environment of the pod."""
    names = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
    host, port = (environ.get(name, "") for name in names)
    for name, found in zip(names, (host, port), strict=True):
        if not found:
            raise Failure(f"{name} is not set: moorage ui-server runs in a pod; see moorage ui")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def _check_authorities(file: str) -> None:
    """Raise Failure unless the file has certificates."""
    try:
        ssl.create_default_context(cadata=Path(file).read_text(encoding="ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise Failure(f"--api-server-ca: {file} has no valid certificate in PEM") from error
    except OSError as error:
        raise Failure(f"--api-server-ca: {file} cannot be read: {reason_of(error)}") from error


def _account(shell: Shell, address: str, ca_file: str, token: str) -> Account:
    def connect() -> Cluster:
        return Cluster(account=TokenAccount(address, ca_file, token))

    def check(namespace: str | None) -> None:
        connect().check_list(namespace)

    def feed(namespace: str | None) -> Feed:
        cluster = connect()
        return Feed(partial(cluster.feed, namespace), cluster.end_feed, _is_denied)

    return Account(page_actions(shell, connect), check, feed)


def _is_denied(failure: Failure) -> bool:
    return isinstance(failure, Unauthenticated | Forbidden)
