"""Verdicts about sentences against labelled pairs of a passage and a sentence.

    python -m benchmarks.bench_support PAIRS.jsonl [--contractnli FILE] [--wrong]

A line of PAIRS holds `passage`, `sentence`, `label` (supported, contradicted or unsupported), and
optionally `kind` (or `changed`) and `language`. The output is the share of sentences with another
label that are doubted, and the share of supported sentences that are doubted, by language and by
kind.
`--contractnli` counts hypotheses that `contradicts` finds contradicted, by their annotated label.
`--wrong` prints the wrong verdicts.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rag_pipeline.answering.polarity import contradicts
from rag_pipeline.answering.support import judge

_SHARE = 0.5
"""The default of `evaluation.answers.support`."""


def annotated(file: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (evidence, hypothesis, label) from a file in ContractNLI's format."""
    data = json.loads(file.read_text("utf-8"))
    for document in data["documents"]:
        for key, found in document["annotation_sets"][0]["annotations"].items():
            if found["choice"] != "NotMentioned":
                spans = (document["spans"][number] for number in found["spans"])
                evidence = "\n".join(document["text"][start:end] for start, end in spans)
                yield evidence, data["labels"][key]["hypothesis"], found["choice"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--contractnli", type=Path)
    parser.add_argument("--wrong", action="store_true")
    arguments = parser.parse_args()
    total: Counter[tuple[str, str]] = Counter()
    doubted: Counter[tuple[str, str]] = Counter()
    for line in arguments.pairs.read_text("utf-8").splitlines():
        pair = json.loads(line)
        verdict = judge(pair["passage"], pair["sentence"], _SHARE)
        side = "right" if pair["label"] == "supported" else "wrong"
        kind = pair.get("kind") or pair.get("changed") or ""
        for group in ("all", pair.get("language", ""), kind, pair["label"]):
            total[group, side] += 1
            doubted[group, side] += verdict != "supported"
        if arguments.wrong and (verdict == "supported") != (side == "right"):
            print(f"{kind}, {pair['label']}, judged {verdict}: {pair['sentence']}")
    for (group, side), count in sorted(total.items()):
        share = 100 * doubted[group, side] / count
        print(
            f"{group:14} {side:5} n {count:4}   doubted {doubted[group, side]:4} ({share:5.1f} %)"
        )
    if arguments.contractnli:
        found = Counter(
            (label, contradicts(evidence, hypothesis))
            for evidence, hypothesis, label in annotated(arguments.contractnli)
        )
        for label in ("Entailment", "Contradiction"):
            count = found[label, True] + found[label, False]
            print(f"ContractNLI {label}: {found[label, True]} of {count} called contradicted")


if __name__ == "__main__":
    main()
