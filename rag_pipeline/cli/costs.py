"""`rag costs`: what a corpus has cost, by what it was spent on."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import cast

from rich.markup import escape
from rich.table import Table

from rag_pipeline.calls.costs import GROUPS, Group, Totals, totals_by
from rag_pipeline.cli.console import console, print_json, say, titled_table
from rag_pipeline.cli.estimates import last_outcome, outcome_line, usd
from rag_pipeline.config import load_config
from rag_pipeline.errors import InputError
from rag_pipeline.pipeline.registry import configurations_of
from rag_pipeline.workspace import Workspace


def show_costs(file: Path, by: str, as_json: bool) -> None:
    """Print tokens and USD per group, the total, and what is left of the budget."""
    if by not in GROUPS:
        raise InputError(f"--by {by!r} is not one of: {', '.join(GROUPS)}")
    config = load_config(file)
    workspace = Workspace(config)
    workspace.cache.refresh()
    ledger = workspace.ledger
    charges = list(ledger.charges())
    groups = totals_by(charges, cast(Group, by), partial(configurations_of, config))
    total = Totals()
    for charge in charges:
        total.add(charge)
    if as_json:
        print_json(
            {
                "corpus": config.corpus,
                "by": by,
                "groups": {name: asdict(group) for name, group in groups.items()},
                "total": asdict(total),
                "budget_usd": config.budget_usd,
                "last_run": last_outcome(workspace),
            }
        )
        return
    if not charges:
        console.print(f"{config.corpus}: no call has been charged; local models are free")
        return
    console.print(_table(config.corpus, by, groups, total))
    if not total.is_known:
        console.print(
            f"[yellow]{total.unpriced:,} calls have no known price; name a file with it under "
            f"`prices` and the next ones have[/yellow]"
        )
    if by == "configuration" and len(groups) > 1:
        console.print(
            "What configurations share counts for each of them, and once in the total.", style="dim"
        )
    note = last_outcome(workspace)
    if note is not None:
        say(outcome_line(note))
    if config.budget_usd is not None:
        left = max(0.0, config.budget_usd - total.usd)
        console.print(f"budget_usd {config.budget_usd:g}: {left:.4f} USD are left")


def _table(corpus: str, by: str, groups: Mapping[str, Totals], total: Totals) -> Table:
    table = titled_table(f"{corpus}: what calls to models cost, by {by}")
    table.add_column(by, overflow="fold", min_width=13)
    for name in ("calls", "input tokens", "of them cached", "output tokens", "USD"):
        table.add_column(name, justify="right")
    for name, group in (*groups.items(), ("total", total)):
        numbers = (group.calls, group.input_tokens, group.cached_tokens, group.output_tokens)
        table.add_row(escape(name), *(f"{n:,}" for n in numbers), usd(group))
    return table
