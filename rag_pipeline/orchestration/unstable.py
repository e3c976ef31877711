"""Unstable parts of Dagster: data versions of ops, observed inputs, checks of partitions.

The range of Dagster versions in pyproject.toml bounds how they can change.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg


@contextmanager
def unstable() -> Iterator[None]:
    """Use an unstable part without its warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        warnings.simplefilter("ignore", dg.PreviewWarning)
        yield
