"""How often a budget is passed in runs with chance prices, concurrency, batches, faults and kills.

python -m benchmarks.bench_budget [RUNS]   (1,000 runs; every tenth has a process that is killed)
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from rag_pipeline_tests.testing.budget_runs import run_under_budget


def main(arguments: Sequence[str]) -> None:
    """Print how many runs passed their budget, by how many of their dearest calls at most."""
    runs = int(arguments[0]) if arguments else 1000
    passed = stopped = broken = 0
    furthest = 0.0
    with patch("rag_pipeline.calls.endpoint._FIRST_BACKOFF", 0.01):
        for seed in range(runs):
            with tempfile.TemporaryDirectory() as folder:
                outcome = run_under_budget(
                    Path(folder) / "calls.sqlite", 1000 + seed, killed=seed % 10 == 0
                )
            stopped += outcome.stopped
            over = (outcome.billed - outcome.budget) / (outcome.dearest_call or 1.0)
            furthest = max(furthest, over)
            passed += over > 0
            if not outcome.is_kept:
                broken += 1
                sys.stdout.write(f"seed {1000 + seed}: {outcome}\n")
    sys.stdout.write(
        f"{runs} runs: {stopped} stopped by the budget; {passed} passed it, by {furthest:.2f} of "
        f"their dearest call at most; {broken} by more than one call\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
