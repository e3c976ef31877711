"""Answers from a folder of files as `rag init` sets it up, by kind of question.

    python -m benchmarks.bench_folder --documents FOLDER --questions FILE [--work FOLDER] [--show]

`--documents` is a folder or a corpus file. `--questions` is a file of JSON lines, each with
`question`, `kind`, `must_contain` (lists of alternatives) and `must_not_contain`. A question is
cited right if the quotations of its answer together contain an alternative of each list and nothing
that they must not contain. White space, case and the marks between cells do not count. A question
of the kind `unanswerable` is right if it is refused. A question may have `turns`, the questions
asked before. `--show` prints the quotations of wrong answers.
"""

import json
import re
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.bench_datasets import rag
from benchmarks.shared import heading, row, working
from rag_pipeline import Corpus
from rag_pipeline.assistant import AssistedAnswer, open_assistant

UNANSWERABLE = "unanswerable"


def built(documents: Path, work: Path) -> Corpus:
    """Return the released corpus of a folder or of a corpus file."""
    file = documents
    if documents.is_dir():
        file, store = work / "folder.yaml", work / "store"
        source = ("--documents", str(documents), "--store", str(store))
        rag("init", "folder", *source, "--output", str(file), "--force")
    rag("run", str(file), "--configuration", "default", "--quiet")
    return Corpus.load(file)


def is_right(asked: dict[str, Any], answer: AssistedAnswer) -> bool:
    """Return whether an answer cites what a question needs, or refuses an unanswerable one."""
    if asked["kind"] == UNANSWERABLE:
        return not answer.answered
    quoted = _plain("\n".join(source.text for source in answer.sources))
    return all(any(_plain(o) in quoted for o in options) for options in asked["must_contain"]) and (
        not any(_plain(wrong) in quoted for wrong in asked.get("must_not_contain", ()))
    )


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[|;,*\"“”`_#>]+", " ", text).casefold().split())


def main() -> None:
    with working(__doc__, documents=Path, questions=Path, show=False) as arguments:
        assistant = open_assistant([built(arguments.documents.resolve(), arguments.work)])
        lines = arguments.questions.read_text().splitlines()
        right: dict[str, list[bool]] = defaultdict(list)
        refused, seconds = [], []
        for asked in map(json.loads, filter(None, lines)):
            began = time.perf_counter()
            turns = {"turns": asked["turns"]} if "turns" in asked else {}
            answer = assistant.ask(asked["question"], **turns)
            seconds.append(time.perf_counter() - began)
            kind = asked["kind"]
            is_so = is_right(asked, answer)
            right[kind].append(is_so)
            if kind != UNANSWERABLE:
                right["all answerable"].append(is_so)
                refused.append(not answer.answered)
            if arguments.show and not is_so:
                print(f"\n{kind}: {asked['question']}  {asked['must_contain']}")
                print(f"  confidence {answer.confidence}, {answer.intent.kind}\n{answer.text}")
        heading("kind", "questions", "right, %")
        for kind, several in right.items():
            row(kind, len(several), f"{100 * sum(several) / len(several):.1f}")
        row("answerable, but refused", len(refused), f"{100 * sum(refused) / len(refused):.1f}")
        print(f"median {1000 * sorted(seconds)[len(seconds) // 2]:.1f} ms a question")


if __name__ == "__main__":
    main()
