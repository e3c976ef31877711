"""Send the stages and the result of some work as server-sent events."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import Response

from rag_pipeline.assistant.results import Progress
from rag_pipeline.errors import RagPipelineError
from rag_pipeline.serving.messages import told

T = TypeVar("T")
Events = Iterable[ServerSentEvent]


async def event_stream(
    work: Callable[[Progress], T],
    at_stage: Callable[[str, int, int], Events],
    of_result: Callable[[T], Events],
    of_failure: Callable[[str], Events],
    seconds: float,
) -> Response:
    """Do the work in a thread, and return the reply when the first stage begins or the work ends.

    `at_stage`, `of_result` and `of_failure` make the events. If the work raises an error of this
    package before its first stage, raise this error. Any other error, and a timeout of `seconds`,
    ends the stream. The last events then contain an error message.
    """
    loop, sent = asyncio.get_running_loop(), asyncio.Queue[Any]()

    def progress(name: str, done: int, total: int) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(sent.put_nowait, list(at_stage(name, done, total)))

    async def run() -> None:
        try:
            async with asyncio.timeout(seconds):
                sent.put_nowait(await asyncio.to_thread(lambda: [*of_result(work(progress)), None]))
        except TimeoutError:
            sent.put_nowait([*of_failure(f"no answer within {seconds:g} s"), None])
        except RagPipelineError as error:
            sent.put_nowait(error)
        except Exception:
            sent.put_nowait([*of_failure("the server failed; see its log"), None])
            raise

    task = asyncio.create_task(run())
    first = await sent.get()
    if isinstance(first, RagPipelineError):
        raise first

    async def events() -> AsyncIterator[ServerSentEvent]:
        batch = first
        try:
            while True:
                if isinstance(batch, RagPipelineError):
                    batch = [*of_failure(told(batch)), None]
                for event in batch:
                    if event is None:
                        return
                    yield event
                batch = await sent.get()
        finally:
            task.cancel()

    return EventSourceResponse(events())
