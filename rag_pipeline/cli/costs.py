"""`rag costs`: the costs of a corpus's calls, by asset, model, configuration or day."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import cast

from rich.markup import escape

from rag_pipeline.calls.costs import GROUPS, Group, Totals, totals_by
from rag_pipeline.cli.console import console, new_table, print_json, say
from rag_pipeline.cli.estimates import last_outcome, outcome_line, usd
from rag_pipeline.config import load_config
from rag_pipeline.errors import InputError
from rag_pipeline.pipeline.registry import configurations_of
from rag_pipeline.workspace import Workspace


def show_costs(file: Path, by: str, as_json: bool) -> None:
    """Print tokens and USD per group, the total, and the rest of the budget."""
    if by not in GROUPS:
        raise InputError(f"--by {by!r} is not one of: {', '.join(GROUPS)}")
    config = load_config(file)
    workspace = Workspace(config)
    charges = list(workspace.ledger.charges())
    groups = totals_by(charges, cast(Group, by), partial(configurations_of, config))
    total = Totals()
    for charge in charges:
        total.add(charge)
    note = last_outcome(workspace)
    if as_json:
        shown = {name: asdict(group) for name, group in groups.items()}
        record = {"corpus": config.corpus, "by": by, "groups": shown, "total": asdict(total)}
        print_json({**record, "budget_usd": config.budget_usd, "last_run": note})
        return
    if not charges:
        console.print(f"{config.corpus}: no call has been charged; local models are free")
        return
    table = new_table(title=f"{config.corpus}: costs of calls to models, by {by}")
    table.add_column(by, overflow="fold", min_width=13)
    for name in ("calls", "input tokens", "of them cached", "output tokens", "USD"):
        table.add_column(name, justify="right")
    for name, group in (*groups.items(), ("total", total)):
        numbers = (group.calls, group.input_tokens, group.cached_tokens, group.output_tokens)
        table.add_row(escape(name), *(f"{n:,}" for n in numbers), usd(group))
    console.print(table)
    if not total.is_known:
        console.print(
            f"[yellow]{total.unpriced:,} calls have no known price; name a file with the price "
            f"under `prices`, and later calls have one[/yellow]"
        )
    if by == "configuration" and len(groups) > 1:
        console.print(
            "Calls that configurations share count for each of them, and once in the total.",
            style="dim",
        )
    if note is not None:
        say(outcome_line(note))
    if config.budget_usd is not None:
        left = max(0.0, config.budget_usd - total.usd)
        console.print(f"budget_usd {config.budget_usd:g}: {left:.4f} USD are left")
