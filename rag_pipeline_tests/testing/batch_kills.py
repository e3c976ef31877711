"""A batch job that is killed at a place on its way, and the run after it."""

import os
import signal
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from rag_pipeline.calls import CallCache, Database
from rag_pipeline_tests.testing.forked import Forked
from rag_pipeline_tests.testing.model_batches import Batches
from rag_pipeline_tests.testing.model_calls import asked, chat
from rag_pipeline_tests.testing.model_faults import Failure
from rag_pipeline_tests.testing.model_replies import Body
from rag_pipeline_tests.testing.model_server import serving

CHILD = """
import os, signal, sys; from pathlib import Path
from rag_pipeline.calls import CallCache, Database
from rag_pipeline_tests.testing.model_calls import asked, chat
url, path, count, stored = sys.argv[1:]
put, left = CallCache.put, int(stored)
def counted(self, *answers):
    global left
    put(self, *answers)
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
CallCache.put = counted
prompts = [f"p{n}" for n in range(int(count))]
asked(prompts, chat(url, batch=True), CallCache(Database(Path(path))))
"""
POSTS = {"files": "upload", "batches": "submit"}
GETS = {"batches/": "wait", "files/": "download"}


@dataclass(frozen=True)
class Point:
    """A kill as a request of a kind arrives, the `number`th of them, or after so many puts."""

    kind: str
    number: int = 1


def run_killed_at(folder: Path, count: int, point: Point) -> tuple[int, int]:
    """Kill a job at a point and run it again; check that nothing is lost or billed twice.

    Return how many batches were created and how many lines submitted.
    """
    path = folder / "calls.sqlite"
    seen: Counter[str] = Counter()
    child: list[Forked] = []
    begun, killed = threading.Event(), threading.Event()

    def faults(place: str, body: Body) -> Failure:
        # An upload's content is no JSON, and a look has no body: the path tells them apart.
        is_post = place == "files" or (place == "batches" and bool(body))
        names = POSTS if is_post else GETS
        kind = next((kind for prefix, kind in names.items() if place.startswith(prefix)), "")
        seen[kind] += 1
        if not killed.is_set() and (kind, seen[kind]) == (point.kind, point.number):
            begun.wait()
            os.kill(child[0].pid, signal.SIGKILL)
            killed.set()
        return None

    with serving(faults=faults, batches=Batches(looks=5)) as server:
        stored = point.number if point.kind == "store" else 0
        child.append(Forked(CHILD, server.url, path, count, stored))
        begun.set()
        assert child[0].wait() == -signal.SIGKILL, f"{point}: it was still at work"
        killed.set()
        prompts = [f"p{n}" for n in range(count)]
        replies = asked(prompts, chat(server.url, batch=True), CallCache(Database(path)))
        assert replies == [f"P{n}" for n in range(count)], point
        assert set(server.billed.values()) == {1}, point
        return len(server.batches.made), len(server.batches.submitted)
