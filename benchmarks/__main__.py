"""Run every benchmark: `python -m benchmarks`, or `make bench`."""

import subprocess
import sys

BENCHMARKS = (
    "bench_cycles",
    "bench_rot",
    "bench_at_once",
    "bench_memory",
    "bench_overhead",
    "bench_lexical",
    "bench_calls",
    "bench_datasets",
    "bench_ablation",
    "bench_significance",
    "bench_verdicts",
    "bench_questions",
    "bench_languages",
    "bench_migrate",
    "bench_wordings",
    "bench_answers",
    "bench_stages",
    "bench_evaluation",
    "bench_serving",
    "bench_expansion",
)


def main() -> None:
    for name in BENCHMARKS:
        sys.stdout.write(f"\n== {name} ==\n")
        sys.stdout.flush()
        subprocess.run([sys.executable, "-W", "ignore", "-m", f"benchmarks.{name}"], check=True)


if __name__ == "__main__":
    main()
