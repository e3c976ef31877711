"""Measure how often `rag why` names a planted change.

    python -m benchmarks.bench_why CORPUS_FILE CONFIGURATION [--changes 200]

The planted changes are a changed text, cut chunks, a dropped context and turned vectors in one
document, and changed weights. Two other documents change too. Counts the questions that are lost
at k = 5 or by rank, and how often the planted change is named.
"""

import random
from collections import Counter
from dataclasses import replace

from benchmarks.shared import options
from rag_pipeline.config import load_config
from rag_pipeline.evaluation.runs import load_queries
from rag_pipeline.release.causes import causes
from rag_pipeline.release.compared_builds import ComparedBuild, open_build
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.planted_changes import KINDS, plant


def weighted(build: ComparedBuild, chance: random.Random) -> ComparedBuild:
    retriever = build.settings.retriever
    names = [n for n in ("dense_weight", "lexical_weight") if hasattr(retriever, n)]
    changed = retriever.model_copy(update={chance.choice(names): 0.0})
    return replace(build, settings=build.settings.model_copy(update={"retriever": changed}))


def main() -> None:
    arguments = options(__doc__, "corpus", "configuration", changes=200)
    workspace = Workspace(load_config(arguments.corpus))
    before = open_build(workspace, arguments.configuration)
    chance = random.Random(0)
    queries = [q for q in load_queries(workspace) if len(q.gold_spans) == 1]
    kinds = (*KINDS, "retriever")
    counted: Counter[tuple[str, str]] = Counter()
    while sum(counted.values()) < arguments.changes:
        kind, query = kinds[sum(counted.values()) % len(kinds)], chance.choice(queries)
        own = query.gold_spans[0].document_id
        others = [d for d in before.by_document if d != own]
        after = replace(before, name="after")
        for other in chance.sample(others, 2):
            after = plant(workspace, after, chance.choice(KINDS[1:3]), other, "after")
        after = (
            weighted(after, chance)
            if kind == "retriever"
            else plant(workspace, after, kind, own, "after")
        )
        (found,) = causes(workspace, before, after, [query.query_id])
        if found.worse != "after" or found.change == "none":
            continue  # the change did no harm to this question
        right = found.change == kind and (kind == "retriever" or found.where == own)
        counted[kind, "right" if right else f"{found.change} ({found.where})"] += 1
    for kind in kinds:
        total = sum(n for (k, _), n in counted.items() if k == kind)
        wrong = {what: n for (k, what), n in counted.items() if k == kind and what != "right"}
        print(f"{kind:10} {counted[kind, 'right']:4} of {total:4} {wrong or ''}")
    named = sum(n for (_, what), n in counted.items() if what == "right")
    print(f"{'all':10} {named:4} of {sum(counted.values()):4}")


if __name__ == "__main__":
    main()
