"""What `bench_scale --folder DIR` measured, as curves over the number of chunks.

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

BUILDING = {
    "documents": "documents",
    "chunks": "chunks",
    "contexts": "contexts",
    "lexical": "BM25 index",
    "vectors": "vector table",
    "vector_maintenance": "vector index",
}
AGAIN = {"unchanged": "nothing changed", "changed": "one changed document"}
QUERIES = ("hybrid p50 ms", "hybrid p95 ms", "hybrid, maxsim p50 ms", "hybrid, maxsim p95 ms")
Measured = dict[int, dict[str, Any]]
"""Number of chunks -> step -> what it took."""


def read(folder: Path) -> Measured:
    """Return what was measured of each size, the smallest first."""
    found = (json.loads(file.read_text()) for file in folder.glob("*/done.json"))
    return {
        done["chunks"]["rows"]: done for done in sorted(found, key=lambda d: d["chunks"]["rows"])
    }


def draw(measured: Measured) -> Figure:
    """Draw time, memory, size and latency, each on two logarithmic axes."""
    mpl.rcParams.update({"svg.hashsalt": "scale", "font.size": 9, "legend.fontsize": 7})
    figure = Figure(figsize=(9.0, 6.6), layout="constrained")
    (time, memory), (size, latency) = figure.subplots(2, 2)
    for step, label in {**BUILDING, **AGAIN}.items():
        style = "--" if step in AGAIN else "-"
        _curve(time, {n: done[step]["cpu"] for n, done in measured.items()}, label, style)
        _curve(memory, {n: done[step]["peak_mib"] for n, done in measured.items()}, label, style)
    _curve(memory, {n: d["queried"]["peak_mib"] for n, d in measured.items()}, "queries", ":")
    names = sorted({name for done in measured.values() for name in done["sizes"]})
    for name in names:
        held = {n: done["sizes"].get(name, 0) for n, done in measured.items()}
        if any(held.values()):
            _curve(size, held, name.split(".")[0].replace("lexical", "BM25 indexes"))
    for name in QUERIES:
        held = {n: d["queried"][name] for n, d in measured.items() if name in d["queried"]}
        _curve(latency, held, name.removesuffix(" ms"), "--" if "p95" in name else "-")
    _dress(time, "processor time", "CPU seconds")
    _dress(memory, "peak memory of the step's process", "MiB")
    _dress(size, "size of the store", "MiB")
    _dress(latency, "query, besides its embedding", "milliseconds")
    return figure


def _curve(axes: Axes, values: dict[int, float], label: str, style: str = "-") -> None:
    shown = {n: value for n, value in values.items() if value}
    axes.plot(list(shown), list(shown.values()), style, marker="o", markersize=3, label=label)


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
