"""The calls and USD of `rag plan` against those that a server logs and bills, for ten changes.

python -m benchmarks.bench_forecast [--repeats N]

The sample's documents and questions with contexts, reranker, judge, answers and context judge, all
of them by a model on loopback. Each change starts from the same complete build. The plan must
refuse budgets of 50 to 95 % of the run's cost, and must not refuse budgets of 150 and 200 %.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.corpora import SAMPLE
from benchmarks.shared import options
from rag_pipeline.config import load_config
from rag_pipeline.errors import BudgetError
from rag_pipeline.pipeline.driver import load_and_cut
from rag_pipeline.pipeline.dry_run import PlannedStep, plan_run, require_budget
from rag_pipeline.workspace import Workspace
from rag_pipeline_tests.testing.builds import run
from rag_pipeline_tests.testing.corpora import copy_corpus, rule, write_file
from rag_pipeline_tests.testing.model_server import ModelServer, serving
from rag_pipeline_tests.testing.planned_calls import (
    asked_by_step,
    planned_by_step,
    reply,
    settings_for,
)

_HELD_BACK = (
    "policies/halvorsk/remote-work.html",
    "agreements/leases/dunmore-wharf-unit-4.txt",
    "agreements/saas/quillmere-folio-subscription-terms.html",
)
_EDITED = (
    "policies/brennwater/remote-working.md",
    "agreements/services/oakhurne-corvanne-mca.md",
    "policies/halvorsk/travel-and-expense.md",
)
_DELETED = (
    "policies/brennwater/incident-response-plan.md",
    "agreements/employment/lindqvar-contract-2022.txt",
    "policies/corvanne/data-retention.html",
)
_ADDED_WORDS = ("Exceptions need written consent.", "This paragraph was reviewed.", "See above.")
_THRESHOLDS = (0.5, 1.5, 0.8)
_TOO_SMALL, _ENOUGH = (0.5, 0.7, 0.8, 0.9, 0.95), (1.5, 2.0)


def changes(repeats: int) -> Iterator[tuple[str, int]]:
    for kind in ("edited", "added", "deleted", "configuration", "threshold"):
        for number in range(repeats):
            yield kind, number


def change(folder: Path, kind: str, number: int, url: str) -> Path:
    """Make a change in a copy of the build, and return its corpus file."""
    settings = settings_of(folder, url)
    documents, sample = folder / "documents", load_config(SAMPLE).documents_path
    assert sample is not None
    if kind == "edited":
        file = documents / _EDITED[number]
        paragraphs = file.read_text().split("\n\n")
        for place in range(len(paragraphs) // 2, len(paragraphs)):
            if paragraphs[place].rstrip().endswith("."):
                paragraphs[place] = f"{paragraphs[place].rstrip()} {_ADDED_WORDS[number]}"
                break
        file.write_text("\n\n".join(paragraphs))
    elif kind == "added":
        shutil.copy(sample / _HELD_BACK[number], documents / _HELD_BACK[number])
    elif kind == "deleted":
        (documents / _DELETED[number]).unlink()
    elif kind == "configuration":
        settings["contextualizers"]["none"] = {"method": "none"}
        new = (
            rule("third", "markdown", "none", "minilm", "hybrid", reranker="llm"),
            rule("third", "semantic", "llm", "minilm", "dense", reranker="llm"),
            rule("third", "recursive_500", "none", "minilm", "hybrid", reranker="llm"),
        )[number]
        settings["configurations"].append(new)
    else:
        settings["chunkings"]["semantic"]["threshold"] = _THRESHOLDS[number]
    return write_file(folder, **settings)


def settings_of(folder: Path, url: str) -> dict[str, Any]:
    return settings_for(
        folder,
        url,
        chunkings={
            "markdown": {"method": "markdown", "max_characters": 600},
            "semantic": {"method": "semantic", "threshold": 1.0, "max_characters": 800},
            "recursive_500": {"method": "recursive", "max_characters": 500},
        },
    )


def measure(base: Path, kind: str, number: int, server: ModelServer) -> tuple[int, int]:
    """Plan and run one change, and print its row.

    Return the number of refused budgets that are too small, and of accepted budgets that suffice.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        copy_corpus(base, folder)
        workspace = Workspace(load_config(change(folder, kind, number, server.url)))
        load_and_cut(workspace)
        before = len(server.requests)
        plan = plan_run(workspace)
        assert len(server.requests) == before
        planned, usd = planned_by_step(plan), sum(row.usd or 0.0 for row in plan)
        asked, paid = asked_by_step(folder / "tiny.yaml", server)
        refused = sum(refuses(workspace, plan, share * paid) for share in _TOO_SMALL)
        accepted = sum(not refuses(workspace, plan, share * paid) for share in _ENOUGH)
    steps = ", ".join(f"{s} {planned[s]}/{asked[s]}" for s in sorted(planned.keys() | asked))
    calls = f"{planned.total()} | {asked.total()} | {planned.total() / (asked.total() or 1):.2f}"
    print(
        f"| {kind} {number + 1} | {calls} | {usd:.4f} | {paid:.4f} | {usd / (paid or 1):.2f} | "
        f"{refused} of {len(_TOO_SMALL)} | {accepted} of {len(_ENOUGH)} | {steps}",
        flush=True,
    )
    return refused, accepted


def refuses(workspace: Workspace, plan: list[PlannedStep], budget_usd: float) -> bool:
    """Return whether the plan refuses a budget, in addition to the money that is spent."""
    budget = workspace.ledger.spent() + budget_usd
    changed = workspace.config.model_copy(update={"budget_usd": budget})
    changed._base = workspace.config._base
    try:
        require_budget(Workspace(changed), plan)
    except BudgetError:
        return True
    return False


def main() -> None:
    repeats = options(__doc__, repeats=2).repeats
    config = load_config(SAMPLE)
    assert config.documents_path is not None and config.queries_path is not None
    with tempfile.TemporaryDirectory() as temporary, serving(reply) as server:
        base = Path(temporary)
        shutil.copytree(config.documents_path, base / "documents")
        for name in _HELD_BACK:
            (base / "documents" / name).unlink()
        # A question about a document that is not there would stop the run.
        kept = [
            line
            for line in config.queries_path.read_text().splitlines()
            if not {g["document_id"] for g in json.loads(line)["gold_spans"]} & set(_HELD_BACK)
        ]
        (base / "queries.jsonl").write_text("\n".join(kept) + "\n")
        list(run(load_config(write_file(base, **settings_of(base, server.url)))))
        print(f"{len(kept)} questions; a complete build: {len(server.requests)} requests")
        refused, accepted = zip(
            *(measure(base, kind, n, server) for kind, n in changes(repeats)), strict=True
        )
    small, enough = len(refused) * len(_TOO_SMALL), len(accepted) * len(_ENOUGH)
    print(f"{sum(refused)} of {small} budgets below the cost are refused")
    print(f"{sum(accepted)} of {enough} budgets above the cost are accepted")


if __name__ == "__main__":
    main()
