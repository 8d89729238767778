"""Runs a blocking load without tying the end of the process to it.

loader -> in_daemon_thread -> Backend.load
"""

import asyncio
import logging
import threading
from collections.abc import Callable

from moorage_runtime.backends.base import LoadedModel
from moorage_runtime.errors import InvalidConfig, RuntimeFault

log = logging.getLogger(__name__)


async def in_daemon_thread(call: Callable[[], LoadedModel], name: str) -> LoadedModel:
    """Run a blocking load in a thread that does not keep the process alive.

    Executors join their threads at exit; a load that never ends must not stop the server from
    ending.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[LoadedModel] = loop.create_future()

    def settle(result: LoadedModel | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        elif result is not None:
            future.set_result(result)

    def work() -> None:
        result: LoadedModel | None = None
        error: BaseException | None = None
        try:
            result = call()
        except RuntimeFault as fault:
            error = fault
        except BaseException as raised:
            # a library may raise anything, even SystemExit
            log.exception("loading failed")
            error = InvalidConfig(f"{type(raised).__name__}: {raised}")
        # a loop that has closed meanwhile wants no result
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, name=name, daemon=True).start()
    return await future
