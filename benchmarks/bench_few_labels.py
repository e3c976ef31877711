"""How much a free judge of all questions narrows what 30 gold labels say, on real questions.

    python -m benchmarks.bench_few_labels CORPUS_FILE CONFIGURATION [--labels 30] [--draws 1000]

The judge reads no gold: where questions differ in the document that they name alone (LegalBench-RAG
asks 17 questions of each agreement), right passages of different documents say the same. It scores
a first passage by how much nearer it is to the other documents' first passages than the next four
are (cosine of TF-IDF), by how near it is, and by its lead in the ranking. Each draw keeps some of
the gold labels.
"""

import argparse
import math
import re
from collections import Counter, defaultdict

import numpy as np

from rag_pipeline.config import load_config
from rag_pipeline.evaluation.prediction_powered import corrected_mean
from rag_pipeline.evaluation.runs import load_queries, load_ranked
from rag_pipeline.evaluation.scores import read_scores
from rag_pipeline.workspace import Workspace

METRIC = "AnswerPresence@1"
_WORD = re.compile(r"[a-z]{3,}")
Weights = dict[str, float]


def vectors(texts: dict[str, str]) -> dict[str, Weights]:
    words = {key: Counter(_WORD.findall(text.lower())) for key, text in texts.items()}
    holding = Counter(word for counted in words.values() for word in counted)
    found = {}
    for key, counted in words.items():
        own = {w: (1 + math.log(n)) * math.log(len(texts) / holding[w]) for w, n in counted.items()}
        length = math.sqrt(sum(x * x for x in own.values())) or 1.0
        found[key] = {w: x / length for w, x in own.items()}
    return found


def judged(workspace: Workspace, configuration: str) -> dict[str, float]:
    """Return the judge's label of each question, 0..1."""
    ranked = {q: c for q, c in load_ranked(workspace, configuration, 5).items() if len(c) > 1}
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for query in load_queries(workspace):
        if query.query_id in ranked:
            alike[query.query.split(";", 1)[-1].strip()].append(query.query_id)
    vector = vectors({c.chunk_id: c.text for chunks in ranked.values() for c in chunks})
    lead, gap, like = {}, {}, {}
    for same in alike.values():
        whole: Counter[str] = Counter()
        for query_id in same:
            whole.update(vector[ranked[query_id][0].chunk_id])
        for query_id in same:
            others = whole.copy()
            others.subtract(vector[ranked[query_id][0].chunk_id])
            length = math.sqrt(sum(x * x for x in others.values())) or 1.0
            near = [
                sum(x * others.get(w, 0.0) for w, x in vector[c.chunk_id].items()) / length
                for c in ranked[query_id]
            ]
            lead[query_id] = near[0] - max(near[1:])
            like[query_id] = near[0]
            gap[query_id] = ranked[query_id][0].score - ranked[query_id][1].score
    ids = list(lead)
    parts = (
        np.clip([lead[q] for q in ids], -0.15, 0.15),
        np.clip([gap[q] for q in ids], 0, 0.3),
        np.array([like[q] for q in ids]),
    )
    total = sum((x - x.mean()) / (x.std() or 1.0) for x in parts)
    low, high = float(np.min(total)), float(np.max(total))
    return {q: float((x - low) / (high - low)) for q, x in zip(ids, total, strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus")
    parser.add_argument("configuration")
    parser.add_argument("--labels", type=int, default=30)
    parser.add_argument("--draws", type=int, default=1000)
    arguments = parser.parse_args()
    workspace = Workspace(load_config(arguments.corpus))
    labels = judged(workspace, arguments.configuration)
    scores = read_scores(workspace, arguments.configuration)[METRIC]
    gold = {q: v for q, v in scores.items() if v is not None and q in labels}
    ids = sorted(gold)
    truth = sum(gold.values()) / len(gold)
    judge = {q: labels[q] for q in ids}
    rng = np.random.default_rng(0)
    held = alone = 0
    widths, before = [], []
    for _ in range(arguments.draws):
        known = {ids[i]: gold[ids[i]] for i in rng.choice(len(ids), arguments.labels, False)}
        found = corrected_mean(known, judge)
        assert found is not None
        held += found.low <= truth <= found.high
        alone += found.gold_low <= truth <= found.gold_high
        widths.append(found.high - found.low)
        before.append(found.gold_high - found.gold_low)
    agreed = np.corrcoef([gold[q] for q in ids], [judge[q] for q in ids])[0, 1]
    narrower = 1 - float(np.mean(widths)) / float(np.mean(before))
    print(f"{len(ids)} questions, {METRIC} {100 * truth:.1f} %, judge's correlation {agreed:.2f}")
    print(f"{arguments.labels} gold labels, {arguments.draws} draws:")
    print(f"coverage {100 * held / arguments.draws:.1f} %, by gold alone "
          f"{100 * alone / arguments.draws:.1f} %")  # fmt: skip
    print(f"mean width {np.mean(widths):.3f} against {np.mean(before):.3f}: "
          f"{100 * narrower:.0f} % narrower")  # fmt: skip


if __name__ == "__main__":
    main()
