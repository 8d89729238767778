"""Runs a blocking load in a thread that does not delay the end of the process.

loader -> in_daemon_thread -> Backend.load
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable

from moorage_runtime.backends.base import LoadedModel
from moorage_runtime.values.errors import InvalidConfig, ModelFailed, RuntimeFault

log = logging.getLogger(__name__)


async def in_daemon_thread(call: Callable[[], LoadedModel], name: str) -> LoadedModel:
    """Run a blocking load in a thread that does not keep the process alive.

    Executors join their threads at exit, so a load that never ends would keep the server running.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[LoadedModel] = loop.create_future()

    def settle(result: LoadedModel | None, error: BaseException | None) -> None:
        if future.cancelled():
            if result is not None:
                threading.Thread(target=result.close, name=name, daemon=True).start()
        elif result is not None:
            future.set_result(result)
        else:
            future.set_exception(error or ModelFailed("the backend returned no model"))

    def work() -> None:
        result: LoadedModel | None = None
        error: BaseException | None = None
        try:
            result = call()
        except RuntimeFault as fault:
            error = fault
        except BaseException as raised:
            # a library may raise any exception, even SystemExit
            log.exception("loading failed")
            error = InvalidConfig(f"{type(raised).__name__}: {raised}")
        # a closed loop needs no result
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, name=name, daemon=True).start()
    return await future
