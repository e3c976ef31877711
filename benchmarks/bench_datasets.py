"""The default configuration against plain dense retrieval on public data sets.

    python -m benchmarks.bench_datasets [--data FOLDER] [--sets NAME ...]

Each set is imported, run as `rag init` and `rag run` do it, and reported with 95 % intervals.
"""

import contextlib
import io
import json
from collections.abc import Collection, Iterator
from pathlib import Path

from benchmarks.shared import working
from rag_pipeline.cli.main import app

_PRESENCE = tuple(f"AnswerPresence@{k}" for k in (1, 5, 10, 20))
# The folder and the published metrics of each set, by our names.
SETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "legalbench-rag": ("legalbench_rag", _PRESENCE),
    "anthropic-contextual": ("anthropic_contextual", ("R@5", "R@10", "R@20")),
    "chroma-chunking": ("chroma_chunking", ("SpanRecall@5", "SpanPrecision@5", "IoU@5")),
    "contractnli": ("contractnli", _PRESENCE),
}


def rag(*arguments: str) -> None:
    """Call the command line, showing only what goes wrong."""
    with contextlib.redirect_stdout(io.StringIO()):
        app(list(arguments), standalone_mode=False)


def prepared(name: str, data: Path, work: Path) -> Path:
    """Import one set and return the corpus file that `rag init` writes for it."""
    folder, file = work / name, work / name / "corpus.yaml"
    rag("import", name, str(data), str(folder), "--quiet")
    rag(
        *("init", name, "--documents", str(folder / "documents")),
        *("--queries", str(folder / "queries.jsonl")),
        *("--store", str(work / "store"), "--output", str(file), "--force"),
    )
    if (folder / "chunks.jsonl").exists():  # the set's own chunks for `plain` too
        text = file.read_text().replace("chunking: recursive_500", "chunking: given")
        file.write_text(text)
    return file


def present(what: str, names: Collection[str]) -> Iterator[tuple[str, Path, Path]]:
    """Yield the asked for data sets that are there, with their folders and where to build."""
    with working(what, names) as arguments:
        for name in arguments.sets:
            data = arguments.data / SETS[name][0]
            if data.is_dir():
                yield name, data, arguments.work
            else:
                print(f"{name}: no data at {data}; left out")


def main() -> None:
    for name, data, work in present(__doc__, SETS):
        metrics, out = SETS[name][1], work / f"{name}.json"
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
