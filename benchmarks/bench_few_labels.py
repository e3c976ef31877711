"""How much a free judge of all questions narrows what 30 gold labels say, on real questions.

    python -m benchmarks.bench_few_labels CORPUS_FILE CONFIGURATION [--labels 30] [--draws 1000]

The judge is `evaluation.consensus`, which reads no gold. Each draw keeps some of the gold labels.
"""

import numpy as np

from benchmarks.shared import options
from rag_pipeline.config import load_config
from rag_pipeline.evaluation.consensus import DEPTH, first_answers
from rag_pipeline.evaluation.prediction_powered import corrected_mean
from rag_pipeline.evaluation.runs import load_queries, load_ranked, load_search_texts
from rag_pipeline.evaluation.scores import read_scores
from rag_pipeline.search.tokenization import Tokenizer
from rag_pipeline.workspace import Workspace

METRIC = "AnswerPresence@1"


def main() -> None:
    arguments = options(__doc__, "corpus", "configuration", labels=30, draws=1000)
    workspace = Workspace(load_config(arguments.corpus))
    ranked = load_ranked(workspace, arguments.configuration, DEPTH)
    asks = load_search_texts(workspace, arguments.configuration)
    every = {q.query_id: asks.get(q.query_id, q.query) for q in load_queries(workspace)}
    labels = first_answers(ranked, every, Tokenizer(workspace.config.lexical).tokenize)
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
