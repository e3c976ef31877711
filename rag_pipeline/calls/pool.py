"""Keep many calls in flight, in bounded memory."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


async def run_bounded(
    items: Iterable[T],
    work: Callable[[T], Awaitable[None]],
    concurrency: int,
    grace_seconds: float = 60.0,
) -> None:
    """Await `work` for each item, at most `concurrency` at a time.

    After the first exception no further item starts. Calls in flight cost money, so they get
    `grace_seconds` to finish. Then the exception is raised.
    """
    waiting = iter(items)
    failed: list[Exception] = []

    async def worker() -> None:
        try:
            for item in waiting:
                await work(item)
                if failed:
                    return
        except Exception as error:  # noqa: BLE001 - raised below
            failed.append(error)

    workers = {asyncio.create_task(worker()) for _ in range(concurrency)}
    try:
        pending = workers
        while pending and not failed:
            _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        if pending:
            await asyncio.wait(pending, timeout=grace_seconds)
    finally:
        for task in workers:
            task.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    if failed:
        raise failed[0]


def run_calls(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine, in a new thread if an event loop runs already, and return its value."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(context.run, asyncio.run, work).result()
