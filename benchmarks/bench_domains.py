"""Choose the default's weights by all other domains, and measure the domain left out.

    python -m benchmarks.bench_domains [--data FOLDER] [--sets NAME ...] [--work FOLDER]

Each data set is a domain. It is indexed as `rag init` writes it, and searched with each pair of a
weight of vectors (BM25 has the rest) and a weight of MaxSim. The pair with the highest mean of the
other sets' published metrics is measured on the set itself.
"""

import json
from itertools import product
from pathlib import Path

import yaml

from benchmarks.bench_datasets import SETS, prepared, present, rag
from benchmarks.shared import heading, row

PAIRS = tuple(product((40, 50, 60), (40, 50, 60)))
DEFAULT = (50, 50)
ENGLISH = [name for name in SETS if not name.startswith("xquad")]

Figures = dict[tuple[int, int], list[float]]
"""The published metrics of a set in percent, by both weights in percent."""


def with_pairs(file: Path) -> None:
    """Replace the configurations of a corpus file by one for each pair of weights."""
    content = yaml.safe_load(file.read_text())
    attributes = content["attributes"]
    default = next(c for c in attributes["configurations"] if c["name"] == "default")
    hybrid, maxsim = attributes["retrievers"]["hybrid"], attributes["rerankers"]["maxsim"]
    made = []
    for dense, late in PAIRS:
        weights = {"dense_weight": dense / 100, "lexical_weight": 1 - dense / 100}
        attributes["retrievers"][f"hybrid_{dense}"] = hybrid | weights
        attributes["rerankers"][f"maxsim_{late}"] = maxsim | {"weight": late / 100}
        stages = {"retriever": f"hybrid_{dense}", "reranker": f"maxsim_{late}"}
        made.append(default | stages | {"name": f"{dense}_{late}"})
    attributes |= {"configurations": made, "baseline": made[0]["name"]}
    file.write_text(yaml.safe_dump(content, sort_keys=False))


def measured(name: str, data: Path, work: Path) -> Figures:
    """Return the published metrics of a set under each pair of weights."""
    file, out = prepared(name, data, work), work / f"{name}.json"
    with_pairs(file)
    rag("run", str(file), "--quiet", "--json", str(out))
    rows = {one["name"]: one["metrics"] for one in json.loads(out.read_text())["configurations"]}
    return {
        pair: [100 * rows["{}_{}".format(*pair)][metric]["mean"] for metric in SETS[name].metrics]
        for pair in PAIRS
    }


def mean_gain(figures: Figures, pair: tuple[int, int]) -> float:
    """Return the mean gain of a pair of weights over the mean of all pairs, in points."""
    means = {one: sum(values) / len(values) for one, values in figures.items()}
    return means[pair] - sum(means.values()) / len(means)


def shown(values: list[float]) -> str:
    return " / ".join(f"{value:.1f}" for value in values)


def main() -> None:
    found = {name: measured(name, data, work) for name, data, work in present(__doc__, ENGLISH)}
    heading("domain", "metrics", "default", "chosen on the others", "with these weights")
    for name, figures in found.items():
        others = [other for domain, other in found.items() if domain != name]
        best = max(PAIRS, key=lambda pair: sum(mean_gain(other, pair) for other in others))
        chosen = "{} %, {} %".format(*best)
        row(
            name,
            ", ".join(SETS[name].metrics),
            shown(figures[DEFAULT]),
            chosen,
            shown(figures[best]),
        )


if __name__ == "__main__":
    main()
