"""What `workspace.yaml` loads: every corpus under `defs/`."""

from pathlib import Path

import dagster as dg


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions of all corpora."""
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
