"""The program of a Python model's own process: loads one model and answers on its channels.

control socket -> Load, then a descriptor for each channel -> a thread for each channel -> model

The process ends with the server. A channel transfers one call at a time.
"""

import contextlib
import ctypes
import io
import itertools
import logging
import os
import pathlib
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Final

from moorage_runtime.backends.base import HttpModel, LoadedModel, ModelSource
from moorage_runtime.backends.containment import fault_of, sentence_of
from moorage_runtime.backends.python import isolation
from moorage_runtime.backends.python.isolation import CHANNEL, Ended, Fault, Http, Infer, Load
from moorage_runtime.backends.python.model import PythonBackend
from moorage_runtime.values.errors import InvalidConfig, RuntimeFault

log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    """Serve the model until the server closes it or ends."""
    # what the model prints appears in the log at once
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    control = socket.socket(fileno=int(sys.argv[1]))
    # Ctrl-C reaches every process of the terminal; the server decides when this one ends
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # also works while an endless call holds the interpreter lock
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    model = _load(control)
    while True:
        try:
            data, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        except OSError:
            data, descriptors = b"", []
        if data != CHANNEL:
            break
        channel = socket.socket(fileno=descriptors[0])
        threading.Thread(target=_serve, args=(model, channel), daemon=True).start()
    if data:
        model.close()
    for stream in (sys.stdout, sys.stderr):
        # the model may have replaced it by a file that is closed
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    # threads that are stuck in the model would keep the interpreter alive
    os._exit(0)


def _load(control: socket.socket) -> LoadedModel:
    load = isolation.receive_call(control)
    if not isinstance(load, Load):
        sys.exit(1)
    source = ModelSource(
        load.name, load.version, pathlib.Path(load.path), load.inputs, load.outputs, load.options
    )
    try:
        model = PythonBackend().load(source)
    except BaseException as error:  # noqa: BLE001 - reported to the server
        fault = error if isinstance(error, RuntimeFault) else InvalidConfig(sentence_of(error))
        isolation.send(control, Fault(fault.reason, fault.message))
        os._exit(1)
    is_http = isinstance(model, HttpModel)
    isolation.send(
        control,
        isolation.Ready(
            model.inputs,
            model.outputs,
            model.dynamic,
            model.streams,
            model.http_path if is_http else "",
            model.http_predict if is_http else False,
        ),
    )
    return model


def _serve(model: LoadedModel, channel: socket.socket) -> None:
    with channel:
        try:
            while True:
                _answer(model, channel, isolation.receive_call(channel))
        except Ended:
            pass


def _answer(model: LoadedModel, channel: socket.socket, call: isolation.ToModel) -> None:
    try:
        match call:
            case Infer(is_stream=False):
                outputs = model.infer(isolation.request_of(call))
                isolation.send(channel, isolation.Part(isolation.to_wire(outputs)))
            case Infer():
                parts = model.stream(isolation.request_of(call))
                try:
                    _stream(
                        channel, (isolation.Part(isolation.to_wire(outputs)) for outputs in parts)
                    )
                finally:
                    _close(parts)
            case Http() if isinstance(model, HttpModel):
                reply = model.http(isolation.http_of(call))
                if isinstance(reply.body, bytes):
                    isolation.send(channel, isolation.reply_part(reply, reply.body, is_whole=True))
                    return
                body = iter(reply.body)
                pieces = itertools.chain((b"",), body)
                try:
                    _stream(
                        channel,
                        (isolation.reply_part(reply, part, is_whole=False) for part in pieces),
                    )
                finally:
                    _close(body)
            case _:
                pass
    except Ended:
        raise
    except BaseException as error:  # noqa: BLE001 - reported to the client
        fault = fault_of(error)
        isolation.send(channel, Fault(fault.reason, fault.message))


def _stream(
    channel: socket.socket, parts: Iterator[isolation.Part] | Iterator[isolation.HttpPart]
) -> None:
    """Send a part for each request of the server; the first one has already been requested."""
    for part in parts:
        isolation.send(channel, part)
        if not isinstance(isolation.receive_call(channel), isolation.More):
            return
    isolation.send(channel, isolation.End())


def _close(parts: object) -> None:
    close = getattr(parts, "close", None)
    if close is not None:
        try:
            close()
        except BaseException as error:  # noqa: BLE001 - nothing waits for the result
            fault_of(error)


if __name__ == "__main__":
    main()
