"""What a batch job that is killed on its way costs: nothing is submitted twice, nothing lost.

python -m benchmarks.bench_kills [PROMPTS]   (20 places on the way of 2,000 prompts)
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rag_pipeline_tests.testing.batch_kills import points, run_killed_at


def main(arguments: Sequence[str]) -> None:
    """Print for each place how many batches and lines were submitted in all."""
    count = int(arguments[0]) if arguments else 2000
    for point in points(count):
        with tempfile.TemporaryDirectory() as folder:
            batches, lines = run_killed_at(Path(folder), count, point)
        sys.stdout.write(
            f"{point.kind} {point.number}: {batches} batches, {lines} lines of {count} prompts\n"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
