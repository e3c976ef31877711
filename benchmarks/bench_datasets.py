"""The default configuration against plain dense retrieval on public data sets.

    python -m benchmarks.bench_datasets [--data FOLDER] [--sets NAME ...]

Each set is imported, run as `rag init` and `rag run` do it, and reported with 95 % intervals. The
sets of XQuAD need the extra e5.
"""

import contextlib
import io
import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.shared import working
from rag_pipeline.calls import CallCounts
from rag_pipeline.cli.main import app
from rag_pipeline.search.pinned import open_index, pin
from rag_pipeline.search.retrieval import Searcher, cached
from rag_pipeline.workspace import Workspace

_PRESENCE = tuple(f"AnswerPresence@{k}" for k in (1, 5, 10, 20))


class Set(NamedTuple):
    """A data set: its format, where its data is, and its published metrics by our names."""

    format: str
    path: str
    metrics: tuple[str, ...]


SETS = {
    "legalbench-rag": Set("legalbench-rag", "legalbench_rag", _PRESENCE),
    "privacy-qa": Set("legalbench-rag", "legalbench_rag_privacy_qa", _PRESENCE),
    "contractnli": Set("contractnli", "contractnli/dev.json", (*_PRESENCE, "DocumentPresence@5")),
    "anthropic-contextual": Set(
        "anthropic-contextual", "anthropic_contextual", ("R@5", "R@10", "R@20")
    ),
    "chroma-chunking": Set(
        "chroma-chunking", "chroma_chunking", ("SpanRecall@5", "SpanPrecision@5", "IoU@5")
    ),
    "xquad-es": Set("squad", "xquad/xquad.es.json", _PRESENCE),
    "xquad-ru": Set("squad", "xquad/xquad.ru.json", _PRESENCE),
}


def rag(*arguments: str) -> None:
    """Call the command line, showing only what goes wrong."""
    with contextlib.redirect_stdout(io.StringIO()):
        app(list(arguments), standalone_mode=False)


def write_squad(data: Path, folder: Path) -> None:
    """Write each paragraph of a file in SQuAD's format as a document, with its questions."""
    (folder / "documents").mkdir(parents=True, exist_ok=True)
    lines = []
    paragraphs = (p for one in json.loads(data.read_text())["data"] for p in one["paragraphs"])
    for number, paragraph in enumerate(paragraphs):
        name = f"{number:03d}.txt"
        (folder / "documents" / name).write_text(paragraph["context"])
        for asked in paragraph["qas"]:
            start, text = asked["answers"][0]["answer_start"], asked["answers"][0]["text"]
            span = {"document_id": name, "start": start, "end": start + len(text)}
            query = {"query_id": asked["id"], "query": asked["question"], "gold_spans": [span]}
            lines.append(json.dumps(query, ensure_ascii=False) + "\n")
    (folder / "queries.jsonl").write_text("".join(lines))


def prepared(name: str, data: Path, work: Path) -> Path:
    """Import one set and return the corpus file that `rag init` writes for it."""
    folder, file = work / name, work / name / "corpus.yaml"
    if SETS[name].format == "squad":
        write_squad(data, folder)
    elif not folder.exists():
        rag("import", SETS[name].format, str(data), str(folder), "--quiet")
    rag(
        *("init", name, "--documents", str(folder / "documents")),
        *("--queries", str(folder / "queries.jsonl")),
        *("--store", str(work / "store"), "--output", str(file), "--force"),
    )
    if (folder / "chunks.jsonl").exists():  # the set's own chunks for `plain` too
        text = file.read_text().replace("chunking: recursive_500", "chunking: given")
        file.write_text(text)
    return file


def default_searcher(workspace: Workspace) -> Searcher:
    """Return a searcher of the default configuration, which embeds each query once."""
    config = workspace.config
    configuration = next(c for c in config.all_configurations.values() if c.name == "default")
    return Searcher(
        index=open_index(workspace, pin(workspace, configuration)),
        retriever=config.retrievers[configuration.retriever],
        reranker=config.rerankers[configuration.reranker],
        embed=cached(workspace.embed(configuration.embedding, CallCounts(), "query")),
    )


def present(what: str, names: Collection[str]) -> Iterator[tuple[str, Path, Path]]:
    """Yield the asked for data sets that are there, with their folders and where to build."""
    with working(what, names) as arguments:
        for name in arguments.sets:
            data = arguments.data / SETS[name].path
            if data.exists():
                yield name, data, arguments.work
            else:
                print(f"{name}: no data at {data}; left out")


def main() -> None:
    for name, data, work in present(__doc__, SETS):
        metrics, out = SETS[name].metrics, work / f"{name}.json"
        rag("run", str(prepared(name, data, work)), "--quiet", "--json", str(out))
        rows = json.loads(out.read_text())["configurations"]
        by_name = {row["name"]: row["metrics"] for row in rows}
        print(f"\n{name} (n = {by_name['plain'][metrics[0]]['n']}), in percent")
        for metric in metrics:
            cells = []
            for configuration in ("plain", "default"):
                value = by_name[configuration][metric]
                low, high = 100 * value["low"], 100 * value["high"]
                cells.append(f"{configuration} {100 * value['mean']:5.1f} [{low:.1f}, {high:.1f}]")
            print(f"  {metric:18} {'   '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
