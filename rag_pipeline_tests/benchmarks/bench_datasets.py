"""The default configuration against plain dense retrieval on public data sets.

    python -m rag_pipeline_tests.benchmarks.bench_datasets [--data FOLDER] [--sets NAME ...]

Each set is imported, run as `rag init` and `rag run` do it, and reported with 95 % intervals.
"""

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from rag_pipeline.cli.main import app

# What each set is measured by: its own published metric, in our names.
SETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "legalbench-rag": (
        "legalbench_rag",
        ("AnswerPresence@1", "AnswerPresence@5", "AnswerPresence@10", "AnswerPresence@20"),
    ),
    "anthropic-contextual": ("anthropic_contextual", ("R@5", "R@10", "R@20")),
    "chroma-chunking": ("chroma_chunking", ("SpanRecall@5", "SpanPrecision@5", "IoU@5")),
    "contractnli": (
        "contractnli",
        ("AnswerPresence@1", "AnswerPresence@5", "AnswerPresence@10", "AnswerPresence@20"),
    ),
}


def rag(*arguments: str) -> None:
    """Call the command line, showing only what goes wrong."""
    with contextlib.redirect_stdout(io.StringIO()):
        app(list(arguments), standalone_mode=False)


def measure(name: str, data: Path, work: Path) -> dict[str, Any]:
    """Import and run one set; return what `rag run --json` wrote."""
    folder, file, out = work / name, work / name / "corpus.yaml", work / f"{name}.json"
    rag("import", name, str(data), str(folder), "--quiet")
    rag(
        *("init", name, "--documents", str(folder / "documents")),
        *("--queries", str(folder / "queries.jsonl")),
        *("--store", str(work / "store"), "--output", str(file)),
    )
    if (folder / "chunks.jsonl").exists():  # the set's own chunks for `plain` too
        text = file.read_text().replace("chunking: recursive_500", "chunking: given")
        file.write_text(text)
    rag("run", str(file), "--quiet", "--json", str(out))
    result: dict[str, Any] = json.loads(out.read_text())
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    here = Path(__file__).parents[3] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=os.environ.get("RAG_PIPELINE_DATA", here))
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        for name in arguments.sets:
            folder, metrics = SETS[name]
            data = Path(arguments.data) / folder
            if not data.is_dir():
                sys.stdout.write(f"{name}: no data at {data}; left out\n")
                continue
            result = measure(name, data, Path(work))
            by_name = {row["name"]: row["metrics"] for row in result["configurations"]}
            sys.stdout.write(f"\n{name} (n = {by_name['plain'][metrics[0]]['n']}), in percent\n")
            for metric in metrics:
                cells = []
                for configuration in ("plain", "default"):
                    value = by_name[configuration][metric]
                    low, high = 100 * value["low"], 100 * value["high"]
                    cells.append(
                        f"{configuration} {100 * value['mean']:5.1f} [{low:.1f}, {high:.1f}]"
                    )
                sys.stdout.write(f"  {metric:18} {'   '.join(cells)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
