"""A Python model in its own process, which is restarted when it ends or hangs.

loader -> IsolatedPythonBackend -> IsolatedModel -> channel -> python.child -> PythonModel

A segmentation fault, an exit or an endless call ends only the model's process. While it restarts,
the model is not ready and its requests are refused. Processes that the model has started end with
it: they would stay in memory, and hold its ends of the channels open.
"""

import logging
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Final, cast

from moorage_runtime.backends.base import LoadedModel, ModelSource
from moorage_runtime.backends.containment import sentence_of
from moorage_runtime.backends.python import isolation
from moorage_runtime.backends.python.isolation import (
    CHANNEL,
    CLOSE,
    Call,
    Ended,
    Fault,
    FromModel,
    HttpPart,
    Part,
    Ready,
)
from moorage_runtime.backends.python.model import PythonBackend
from moorage_runtime.backends.python.packages import Packages
from moorage_runtime.values.errors import (
    DeadlineExceeded,
    InvalidConfig,
    ModelFailed,
    ModelNotReady,
    RuntimeFault,
)
from moorage_runtime.values.inference import NO_SIGNATURES, HttpCall, HttpReply, InferRequest
from moorage_runtime.values.tensors import Tensor

log = logging.getLogger(__name__)

# A process that lived for a shorter time restarts after a delay, which doubles each time.
_STABLE_SECONDS: Final = 60.0
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 30.0
_CHILD: Final = "moorage_runtime.backends.python.child"
# All of this server; the kernel ends their processes with it, but not what those have started.
_models: Final[weakref.WeakSet["IsolatedModel"]] = weakref.WeakSet()
# Time for the model's own close().
_CLOSE_SECONDS: Final = 5.0


class IsolatingPythonBackend:
    """Loads Python models in the server's process, or in their own if model.yaml sets it.

    Args:
        packages: Installs the packages that a model in its own process requires.
    """

    def __init__(self, packages: Packages) -> None:
        self._packages = packages

    def load(self, source: ModelSource) -> LoadedModel:
        """Load one model; raises like the PythonBackend's ``load``."""
        is_isolated = source.options.get("python_isolation") == "process"
        seconds = source.options.get("python_timeout_seconds")
        if seconds and not is_isolated:
            raise InvalidConfig(
                f"model.yaml: python.timeout_seconds is {seconds:g}, but a call in the server's "
                "process cannot be ended: set python.isolation to process, or timeout_seconds "
                "instead"
            )
        if not source.options.get("python_requirements"):
            return IsolatedModel(source) if is_isolated else PythonBackend().load(source)
        if not is_isolated:
            raise InvalidConfig(
                "model.yaml: python.requirements is true, but the packages of a model cannot be "
                "imported into the server's process: set python.isolation to process"
            )
        return IsolatedModel(source, self._packages.installed(source.path, source.report))


def end_all() -> None:
    """End the processes of all models."""
    for model in list(_models):
        model.end()


class _Process:
    """One run of the model's process."""

    def __init__(self, source: ModelSource, packages: pathlib.Path | None) -> None:
        self.started = time.monotonic()
        self._lock = threading.Lock()
        self._free: list[socket.socket] = []
        self._ended = threading.Event()
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - the same program
                # without the modules of the current folder, as in the server
                [sys.executable, "-P", "-m", _CHILD, str(theirs.fileno())],
                env=_environment(packages),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                process_group=0,
            )
        load = isolation.Load(
            source.name,
            source.version,
            str(source.path.absolute()),
            source.inputs,
            source.outputs,
            {
                "parameters": source.options.get("parameters", {}),
                "python_class": source.options.get("python_class"),
            },
        )
        with suppress(Ended):
            isolation.send(self._control, load)

    def ready(self) -> Ready:
        """The metadata of the loaded model.

        Raises:
            InvalidConfig: It failed to load, or its process ended.
        """
        try:
            message = isolation.receive(self._control)
        except Ended:
            raise InvalidConfig(
                f"the model's process {self.wait()} while it was loading"
            ) from None
        match message:
            case Ready():
                return message
            case Fault():
                raise isolation.fault_of(message)
            case _:
                raise InvalidConfig(
                    "the model's process sent an invalid message while it was loading"
                )

    @contextmanager
    def channel(self) -> Generator[socket.socket]:
        """A connection for one call; it is reused after a successful call.

        Raises:
            Ended: The process has ended.
        """
        with self._lock:
            channel = self._free.pop() if self._free else None
        if channel is None:
            channel, theirs = socket.socketpair()
            with theirs, self._lock:
                try:
                    socket.send_fds(self._control, [CHANNEL], [theirs.fileno()])
                except OSError as error:
                    channel.close()
                    raise Ended from error
        try:
            yield channel
        except BaseException:
            channel.close()
            raise
        with self._lock:
            self._free.append(channel)

    def wait(self) -> str:
        """Wait for the end of the process, end those of its group, and describe it."""
        # without reaping it, so that its number remains that of the group
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        self.kill_group()
        status = self._process.wait()
        self._ended.set()
        if status < 0:
            return f"was killed by {signal.Signals(-status).name}"
        return f"exited with status {status}"

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def kill_group(self) -> None:
        """End the process and those that it has started at once."""
        if not self._ended.is_set():
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Let the model close, and end the process."""
        with suppress(OSError), self._lock:
            self._control.sendall(CLOSE)
        if not self._ended.wait(_CLOSE_SECONDS):
            self._process.kill()
            self._ended.wait()
        self.release()

    def release(self) -> None:
        """Close the server's ends of the sockets."""
        self._control.close()
        with self._lock:
            for channel in self._free:
                channel.close()
            self._free.clear()


class IsolatedModel:
    """A model in its own process.

    Args:
        source: What to load; ``python_timeout_seconds`` of its options is the maximum time of one
            call, or of one part of a stream, after which the process is killed.
        packages: Folder of packages that only this model imports, or None.

    Raises:
        InvalidConfig: The model does not load.
    """

    platform = "python_callable"
    signatures = NO_SIGNATURES
    inline_rows = 0
    merge_obstacle = "a Python class may combine the rows of a batch"

    def __init__(self, source: ModelSource, packages: pathlib.Path | None = None) -> None:
        self._source = source
        self._packages = packages
        self._what = f"model '{source.name}' version '{source.version}'"
        self._timeout_seconds: float = source.options.get("python_timeout_seconds", 0.0)
        self._process: _Process | None = None
        self._starting: _Process | None = None
        self._problem = "its process is starting"
        self._changed: list[Callable[[], None]] = []
        self._closing = threading.Event()
        self._loaded = threading.Event()
        self._first: Ready | None = None
        self._failure: Exception | None = None
        _models.add(self)
        # the kernel kills the process when the thread that started it ends
        name = f"supervise-{source.name}"
        threading.Thread(target=self._supervise, name=name, daemon=True).start()
        self._loaded.wait()
        if self._failure is not None:
            raise self._failure
        first = cast("Ready", self._first)
        self.inputs = first.inputs
        self.outputs = first.outputs
        self.dynamic = first.dynamic
        self.streams = first.streams
        self.http_path = first.http_path
        self.http_predict = first.http_predict

    def problem(self) -> str:
        """Why the model cannot currently answer; "" if it can."""
        return self._problem

    def watch(self, changed: Callable[[], None]) -> None:
        """Register a callback for changes of ``problem``, which is called in any thread."""
        self._changed.append(changed)

    def infer(self, request: InferRequest) -> tuple[Tensor, ...]:
        """Run once in the model's process.

        Raises:
            ModelNotReady: The process is being restarted.
            ModelFailed: The model raised an exception, or its process ended.
            DeadlineExceeded: It took too long; its process is restarted.
        """
        # read to the end, so that the channel can serve the next call
        messages = list(self._call(isolation.infer_call(request, is_stream=False)))
        return _tensors(messages[0]) if messages else ()

    def stream(self, request: InferRequest) -> Iterator[tuple[Tensor, ...]]:
        """Run, and yield each part; raises like ``infer``."""
        with closing(self._call(isolation.infer_call(request, is_stream=True))) as parts:
            for message in parts:
                yield _tensors(message)

    def http(self, call: HttpCall) -> HttpReply:
        """Answer in the model's own format; raises like ``infer``."""
        parts = self._call(isolation.http_call(call))
        head = next(parts, None)
        if not isinstance(head, HttpPart):
            raise ModelFailed("the model's process sent an invalid message")
        if head.is_whole:
            next(parts, None)
            return HttpReply(head.body, head.status, head.content_type)
        return HttpReply(_bodies(parts), head.status, head.content_type)

    def close(self) -> None:
        """Close the model and end its process."""
        self._closing.set()
        process, starting = self._process, self._starting
        if process is not None:
            process.close()
        elif starting is not None:
            starting.kill()

    def end(self) -> None:
        """End its process without closing the model, because the server ends."""
        self._closing.set()
        for process in (self._process, self._starting):
            if process is not None:
                process.kill_group()

    def _call(self, call: Call) -> Generator[Part | HttpPart]:
        process = self._process
        if process is None:
            raise ModelNotReady(f"{self._what} cannot answer: {self._problem}")
        try:
            with process.channel() as channel:
                yield from self._parts(channel, call)
        except TimeoutError:
            log.error(  # noqa: TRY400 - the trace would not explain it
                "%s did not answer within %g s: its process is being restarted",
                self._what,
                self._timeout_seconds,
            )
            process.kill()
            raise DeadlineExceeded(
                f"the model did not answer within {self._timeout_seconds:g} s"
            ) from None
        except Ended:
            raise ModelFailed("the model's process ended during the request") from None

    def _parts(self, channel: socket.socket, call: Call) -> Generator[Part | HttpPart]:
        is_single = isinstance(call, isolation.Infer) and not call.is_stream
        message: isolation.ToModel = call
        while True:
            channel.settimeout(self._timeout_seconds or None)
            isolation.send(channel, message)
            answer: FromModel = isolation.receive(channel, self._timeout_seconds)
            match answer:
                case Part() | HttpPart():
                    yield answer
                    if is_single or (isinstance(answer, HttpPart) and answer.is_whole):
                        return
                case Fault():
                    raise isolation.fault_of(answer)
                case _:
                    return
            message = isolation.More()

    def _supervise(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while not self._closing.is_set():
            started = time.monotonic()
            why = self._live()
            if self._first is None or self._closing.is_set():
                return
            if time.monotonic() - started > _STABLE_SECONDS:
                pause = _FIRST_PAUSE_SECONDS
            log.error("%s: %s, restarting in %g s", self._what, why, pause)
            self._tell(f"{why}, restarting in {pause:g} s")
            self._closing.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    def _live(self) -> str:
        """Start the process, wait for its end, and describe it."""
        process: _Process | None = None
        try:
            process = self._starting = _Process(self._source, self._packages)
            if self._closing.is_set():
                process.kill()
            ready = process.ready()
        except Exception as error:  # noqa: BLE001 - the supervisor must continue
            if process is not None:
                process.kill()
                process.wait()
                process.release()
            if self._first is None:
                self._failure = error
                self._loaded.set()
            words = error.message if isinstance(error, RuntimeFault) else sentence_of(error)
            return f"its process did not start: {words}"
        self._process = process
        self._tell("")
        if self._first is None:
            self._first = ready
            self._loaded.set()
        why = process.wait()
        self._process = None
        process.release()
        return f"its process {why}"

    def _tell(self, problem: str) -> None:
        self._problem = problem
        for changed in self._changed:
            changed()


def _environment(packages: pathlib.Path | None) -> dict[str, str] | None:
    """The variables of the model's process; its own packages precede those of the server."""
    if packages is None:
        return None
    others = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(packages), *([others] if others else [])])
    return {**os.environ, "PYTHONPATH": path}


def _tensors(message: Part | HttpPart) -> tuple[Tensor, ...]:
    if not isinstance(message, Part):
        raise ModelFailed("the model's process sent an invalid message")
    try:
        return isolation.from_wire(message.outputs)
    except ValueError as error:
        raise ModelFailed(f"the model's process sent an invalid message: {error}") from error


def _bodies(parts: Generator[Part | HttpPart]) -> Generator[bytes]:
    with closing(parts):
        for part in parts:
            if isinstance(part, HttpPart):
                yield part.body
