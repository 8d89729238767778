"""Runs commands of moorage in this process."""

import http.server
import threading

import pytest

from moorage_cli import __main__ as program
from moorage_cli.ask import cluster as connected
from support.cli_cluster import Server


@pytest.fixture
def port():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join(10)


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a command line against a fake cluster; returns status, output and errors."""

    def run(cluster, *arguments):
        monkeypatch.setattr(connected, "Cluster", lambda *_: cluster)
        try:
            code = program.main(arguments)
        except SystemExit as ended:
            code = ended.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
