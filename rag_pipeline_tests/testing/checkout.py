"""The files of this checkout, as they would be committed."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def copy_of_checkout(folder: Path, *parts: str) -> None:
    """Copy files and folders of the checkout, without what git ignores."""
    files = ("git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *parts)
    listed = subprocess.run(files, cwd=ROOT, check=True, capture_output=True, text=True)
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
