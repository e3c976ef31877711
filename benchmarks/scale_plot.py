"""Draw the measurements of `bench_scale --folder DIR` as curves over the number of chunks.

python -m benchmarks.scale_plot DIR FILE.svg
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

STEPS = {
    "documents": "documents",
    "chunks": "chunks",
    "contexts": "contexts",
    "lexical": "BM25 index",
    "vectors": "vector table",
    "vector_maintenance": "vector index",
    "unchanged": "nothing changed",
    "changed": "one changed document",
}
QUERIES = ("hybrid p50 ms", "hybrid p95 ms", "hybrid, maxsim p50 ms", "hybrid, maxsim p95 ms")
Measured = dict[int, dict[str, Any]]
"""Number of chunks -> step -> its measurements."""


def read(folder: Path) -> Measured:
    """Return the measurements of each size, the smallest first."""
    found = (json.loads(file.read_text()) for file in folder.glob("*/done.json"))
    return dict(sorted((done["chunks"]["rows"], done) for done in found))


def draw(measured: Measured) -> Figure:
    """Draw time, memory, size and latency, each on two logarithmic axes."""
    mpl.rcParams.update({"svg.hashsalt": "scale", "font.size": 9, "legend.fontsize": 7})
    figure = Figure(figsize=(9.0, 6.6), layout="constrained")
    (time, memory), (size, latency) = figure.subplots(2, 2)

    def curve(axes: Axes, step: str, name: str, label: str, style: str = "-") -> None:
        shown = {n: done[step][name] for n, done in measured.items() if done[step].get(name)}
        if shown:
            axes.plot(list(shown), list(shown.values()), style, marker="o", ms=3, label=label)

    for step, label in STEPS.items():
        style = "--" if step.endswith("changed") else "-"
        curve(time, step, "cpu", label, style)
        curve(memory, step, "peak_mib", label, style)
    curve(memory, "queried", "peak_mib", "queries", ":")
    for name in sorted({name for done in measured.values() for name in done["sizes"]}):
        curve(size, "sizes", name, name.split(".")[0].replace("lexical", "BM25 indexes"))
    for name in QUERIES:
        curve(latency, "queried", name, name.removesuffix(" ms"), "--" if "p95" in name else "-")
    _dress(time, "processor time", "CPU seconds")
    _dress(memory, "peak memory of the step's process", "MiB")
    _dress(size, "size of the store", "MiB")
    _dress(latency, "query, besides its embedding", "milliseconds")
    return figure


def _dress(axes: Axes, title: str, unit: str) -> None:
    axes.set(title=title, xlabel="chunks", ylabel=unit, xscale="log", yscale="log")
    axes.yaxis.set_major_formatter("{x:g}")
    lowest, highest = axes.get_ylim()
    axes.yaxis.set_minor_formatter("{x:g}" if highest < 20 * lowest else NullFormatter())
    axes.grid(alpha=0.3)
    axes.legend()


def main() -> None:
    folder, file = map(Path, sys.argv[1:3])
    draw(read(folder)).savefig(file, metadata={"Date": None})


if __name__ == "__main__":
    main()
