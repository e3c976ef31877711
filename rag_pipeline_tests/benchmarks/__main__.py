"""Run every benchmark: `python -m rag_pipeline_tests.benchmarks`, or `make bench`."""

import subprocess
import sys

BENCHMARKS = ("bench_overhead", "bench_lexical", "bench_retrieval", "bench_datasets")


def main() -> None:
    for name in BENCHMARKS:
        sys.stdout.write(f"\n== {name} ==\n")
        sys.stdout.flush()
        subprocess.run(
            [sys.executable, "-W", "ignore", "-m", f"rag_pipeline_tests.benchmarks.{name}"],
            check=True,
        )


if __name__ == "__main__":
    main()
