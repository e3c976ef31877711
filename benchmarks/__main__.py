"""Run every benchmark: `python -m benchmarks`, or `make bench`."""

import subprocess
import sys

BENCHMARKS = (
    "cycles integrity at_once memory overhead lexical calls datasets ablation verdicts operating "
    "questions languages migrate wordings answers stages evaluation serving expansion"
).split()


def main() -> None:
    for name in BENCHMARKS:
        sys.stdout.write(f"\n== bench_{name} ==\n")
        sys.stdout.flush()
        subprocess.run(
            [sys.executable, "-W", "ignore", "-m", f"benchmarks.bench_{name}"], check=True
        )


if __name__ == "__main__":
    main()
