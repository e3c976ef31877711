"""How often a release without labelled questions says "nothing answers", rightly and wrongly.

    python -m benchmarks.bench_silence [--data FOLDER] [--sets NAME ...] [--models NAME ...]
        [--work FOLDER]

The calibration is placed by questions that rules make from the documents and by general questions
(`answering.confidence.placed`). A set's own questions are asked with and without their gold
documents. The columns are the shares, in percent, that are refused: of the answerable questions, of
those without their gold documents (other documents of a set may answer them), of the general ones,
and of the answerable ones by `DEFAULT`. `distance` refuses 8 % of the set's answerable questions:
from the made questions downwards, or with e5 from the general questions upwards. `_BELOW_MADE` and
`_ABOVE_GENERAL` are chosen so that few sets refuse more. `left out` is the refused share of the
answerable questions if the other sets choose it. `equal` is the refused share of those without
their gold documents where 8 % of the answerable ones are refused.
"""

import json
import shutil
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.bench_datasets import SETS as PUBLIC
from benchmarks.bench_datasets import rag
from benchmarks.corpora import SAMPLE
from benchmarks.shared import heading, row, working
from rag_pipeline import Corpus
from rag_pipeline.answering import confidence
from rag_pipeline.answering.confidence import placed
from rag_pipeline.answering.reading import Floats
from rag_pipeline.calls import CallCounts
from rag_pipeline.config import load_config
from rag_pipeline.config.calibration import DEFAULT
from rag_pipeline.evaluation.calibration import examples, examples_without_gold
from rag_pipeline.evaluation.runs import load_queries, load_ranked
from rag_pipeline_tests.testing.language_set import write_language_set

SETS = ("sample", "privacy", "legalbench-rag", "xquad", "language_set")
MODELS = ("minilm", "e5")
_FOLDERS = {"privacy": "legalbench_rag_privacy_qa", "legalbench-rag": PUBLIC["legalbench-rag"].path}
_MOST = 80
_XQUAD = "es"


class Measured(NamedTuple):
    """One set under one model: the evidence of its own, of made and of general questions."""

    name: str
    answerable: Floats
    removed: Floats
    made: Floats
    general: Floats

    @property
    def by_sentence(self) -> bool:
        """Return whether the agreement of sentences is known."""
        return bool(self.general[:, -1].any())

    @property
    def distance(self) -> float:
        """Return the distance that refuses 8 % of the answerable questions."""
        score = confidence._SCORE_BY_SENTENCE if self.by_sentence else confidence._SCORE
        own, made, far = (rows @ score for rows in (self.answerable, self.made, self.general))
        least = np.quantile(own, 0.08)
        if self.by_sentence:
            return float(least - np.quantile(far, confidence._HIGHEST_GENERAL))
        return float((np.quantile(made, 0.08) - least) / (np.median(made) - np.median(far)))

    def refused(self, rows: Floats, distance: float | None = None) -> float:
        """Return the refused share of some evidence in percent, at another distance if given."""
        name = "_ABOVE_GENERAL" if self.by_sentence else "_BELOW_MADE"
        before = getattr(confidence, name)
        setattr(confidence, name, before if distance is None else distance)
        found = placed(self.made, self.general) or DEFAULT
        setattr(confidence, name, before)
        return 100 * float((found.chances(rows) < found.least).mean()) if len(rows) else np.nan


def written(name: str, data: Path, work: Path) -> None:
    """Write the documents and queries of a set."""
    if name == "sample":
        config = load_config(SAMPLE)
        shutil.copytree(config.documents_path, work / "documents")
        shutil.copy(config.queries_path or "", work / "queries.jsonl")
    elif name == "language_set":
        write_language_set(work, "de", "de")
    elif name == "xquad":
        _write_xquad(data / "xquad" / f"xquad.{_XQUAD}.json", work)
    else:
        rag("import", "legalbench-rag", str(data / _FOLDERS[name]), str(work), "--quiet")


def _write_xquad(file: Path, work: Path) -> None:
    (work / "documents").mkdir()
    asked = []
    for number, article in enumerate(json.loads(file.read_text())["data"]):
        name, text = f"{number:02}.txt", ""
        for paragraph in article["paragraphs"]:
            for each in paragraph["qas"]:
                start = len(text) + each["answers"][0]["answer_start"]
                end = start + len(each["answers"][0]["text"])
                span = {"document_id": name, "start": start, "end": end}
                asked.append(
                    {"query_id": each["id"], "query": each["question"], "gold_spans": [span]}
                )
            text += paragraph["context"] + "\n\n"
        (work / "documents" / name).write_text(text)
    lines = (json.dumps(each, ensure_ascii=False) for each in asked[:: len(asked) // _MOST])
    (work / "queries.jsonl").write_text("\n".join(lines) + "\n")


def measured(name: str, model: str, data: Path, work: Path) -> Measured:
    """Build a set with one of the packaged models, and return the evidence of its questions."""
    folder = work / name
    if not folder.exists():
        folder.mkdir(parents=True)
        written(name, data, folder)
    file = work / f"{name}_{model}.yaml"
    if not file.exists():
        rag(
            *("init", name.replace("-", "_"), "--documents", str(folder / "documents")),
            *("--queries", str(folder / "queries.jsonl"), "--model", model),
            *("--store", str(work / f"store_{name}_{model}"), "--output", str(file)),
        )
    rag("run", str(file), "--configuration", "default", "--quiet")
    workspace = Corpus.load(file).workspace
    configuration = workspace.config.configuration("default")
    ranked, counts = load_ranked(workspace, "default"), CallCounts()
    found = examples(workspace, configuration, load_queries(workspace), ranked, counts, _MOST)
    without = examples_without_gold(workspace, configuration, counts)
    assert found is not None and without is not None
    removed = np.array(found.removed)
    return Measured(f"{name}, {model}", found.rows[~removed], found.rows[removed], *without)


def main() -> None:
    with working(__doc__, SETS, models=list(MODELS)) as arguments:
        found = [
            measured(name, model, arguments.data, arguments.work)
            for name, model in product(arguments.sets, arguments.models)
        ]
    columns = ("made", "answerable", "gold removed", "general", "DEFAULT")
    heading("set", *columns, "distance", "left out", "equal")
    for one in found:
        alike = [o for o in found if o.by_sentence == one.by_sentence]
        others = [o.distance for o in alike if o.name.split(",")[0] != one.name.split(",")[0]]
        safest = (min if one.by_sentence else max)(others, default=one.distance)
        by_default = 100 * (DEFAULT.chances(one.answerable) < DEFAULT.least).mean()
        shares = [one.refused(rows) for rows in (one.answerable, one.removed, one.general)]
        equal = one.refused(one.removed, one.distance)
        last = (one.refused(one.answerable, safest), equal)
        cells = [f"{n:.1f}" for n in (*shares, by_default)] + [f"{one.distance:.2f}"]
        row(one.name, len(one.made), *cells, *(f"{n:.1f}" for n in last))


if __name__ == "__main__":
    main()
