"""Ctrl-C in the middle of a build, as a user presses it: a signal to the process of `rag run`."""

import os
from pathlib import Path

from rag_pipeline_tests.testing import forked
from rag_pipeline_tests.testing.corpora import write_corpus, write_documents

# Logs the texts of each request, and presses Ctrl-C once just before the third is sent.
CHILD = """
import os, signal
from rag_pipeline.models.providers import minilm
minilm.TOKENS_PER_BATCH = 256
embed, requests = minilm.MiniLM.embed, []
def logged(self, texts, input_type="document"):
    requests.append(texts)
    if PRESS and len(requests) == 3:
        os.kill(os.getpid(), signal.SIGINT)
    with open(LOG, "a") as log:
        log.writelines(repr(text) + "\\n" for text in texts)
    return embed(self, texts, input_type)
minilm.MiniLM.embed = logged
from rag_pipeline.cli import main
main()
"""


def test_ctrl_c_stops_and_the_next_run_goes_on(tmp_path: Path) -> None:
    file, log = write_corpus(tmp_path, queries=None), tmp_path / "log"
    child = f"LOG = {str(log)!r}\n{CHILD}"
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    more = {f"{n}.txt": f"Document {n} speaks of number {n} at some length." for n in range(12)}
    write_documents(tmp_path / "documents", more)

    stopped = forked.run(f"PRESS = True\n{child}", "run", file, env=alone)
    assert stopped.returncode == 130
    assert stopped.stderr == "stopped: finished work is kept; the same command continues\n"
    assert "cut documents into chunks" in stopped.stdout
    assert "index the meaning" not in stopped.stdout
    before = log.read_text().splitlines()
    assert before

    again = forked.run(f"PRESS = False\n{child}", "run", file, env=alone)
    assert (again.returncode, again.stderr) == (0, "")
    assert "14 of 20 steps had work" in again.stdout
    sent = log.read_text().splitlines()
    assert len(sent) > len(before)
    assert len(sent) == len(set(sent)), "no text is embedded twice"


# Ctrl-C within the callback of a weak reference, where Python ignores exceptions.
LOST = """
import signal, sys, threading, typer, weakref
from rag_pipeline.cli import main
app = typer.Typer()
@app.command()
def work():
    thing = threading.Event()
    reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
    del thing
    threading.Event().wait(60)
sys.modules["rag_pipeline.cli.main"].app = app
main()
"""


def test_a_ctrl_c_that_python_loses_stops_too() -> None:
    stopped = forked.run(LOST)
    assert (stopped.returncode, stopped.stderr.partition(":")[0]) == (130, "stopped")
