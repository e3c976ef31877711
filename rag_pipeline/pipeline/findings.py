"""One thing that is wrong in a store, as `rag doctor` tells and mends it."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: where, what, what mending it does, and the mending itself."""

    place: str
    problem: str
    cure: str
    mend: Callable[[], object] | None = None
    """None where only a person can help."""
