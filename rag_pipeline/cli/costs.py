"""Implement `rag costs`, and compare the estimated costs of a run with the actual costs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

from rich.markup import escape

from rag_pipeline.calls.costs import GROUPS, ChargedTokens, Group, Totals, totals_by
from rag_pipeline.cli.console import console, counted, new_table, print_json, say
from rag_pipeline.config import load_config
from rag_pipeline.errors import InputError
from rag_pipeline.pipeline.dry_run import ERROR, PlannedStep, RunPlan, is_known
from rag_pipeline.pipeline.registry import configurations_of
from rag_pipeline.workspace import Workspace

_LAST_RUN = "costs/last_run.json"
_NO_PRICE = "an unknown price; set the model's `price` in the corpus file"


def show_costs(file: Path, by: str, as_json: bool) -> None:
    """Print tokens and USD per group, their totals, and the rest of the budget."""
    if by not in GROUPS:
        raise InputError(f"--by {by!r} is not one of: {', '.join(GROUPS)}")
    config = load_config(file)
    workspace = Workspace(config)
    charges = list(workspace.ledger.charges())
    groups = totals_by(charges, cast(Group, by), partial(configurations_of, config))
    total = Totals()
    for charge in charges:
        total.add(charge)
    note: dict[str, Any] | None = workspace.store.read_json(_LAST_RUN)
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
            f"[yellow]{total.unpriced:,} calls have no known price; to price later calls, name a "
            f"file with the price under `prices`[/yellow]"
        )
    if by == "configuration" and len(groups) > 1:
        console.print("Shared calls count for each configuration, but once in total.", style="dim")
    if note is not None:
        outcome = _side_by_side(note["estimate"], Totals(**note["actual"]))
        say(f"last run ({note['time'][:16].replace('T', ' ')} UTC): {outcome}")
    if config.budget_usd is not None:
        left = max(0.0, config.budget_usd - total.usd)
        console.print(f"budget_usd {config.budget_usd:g}: {left:.4f} USD are left")


def estimate_lines(found: Sequence[PlannedStep]) -> list[str]:
    """Return one line per paid model, with the estimated costs of a run."""
    lines = []
    for model in dict.fromkeys(f.model for f in found if f.model):
        own = [f for f in found if f.model == model]
        tokens = sum((f.tokens for f in own), ChargedTokens())
        asks = sum(f.asks or 0 for f in own)
        texts = sum(f.calls or 0 for f in own)
        parts = [counted(asks, "prompt")] * (asks > 0) + [counted(texts, "text")] * (texts > 0)
        if not is_known(own):
            parts.append("an unknown number ('?') until documents are loaded and cut")
        if not parts:
            continue
        cached = f" ({tokens.cached:,} of them from its prompt cache)" if tokens.cached else ""
        priced = all(f.usd is not None or not is_known([f]) for f in own)
        price = f"{sum(f.usd or 0.0 for f in own):.4f} USD" if priced else _NO_PRICE
        lines.append(
            f"{model}: {' and '.join(parts)}; about {tokens.input:,} input tokens{cached}, "
            f"{tokens.output:,} output tokens: {price} ({ERROR})."
        )
    return lines


def keep_outcome(plan: RunPlan, position: int) -> str:
    """Write estimated and actual costs of a run to the store, and return both in words.

    The charges after `position` in the ledger belong to the run. Return "" if the run has no paid
    models, or if it had no calls and no cost was expected.
    """
    if not plan.pays:
        return ""
    actual = Totals()
    for charge in plan.workspace.ledger.charges(after=position):
        actual.add(charge)
    paid = [f for f in plan.planned if f.model]
    if not actual.calls and all(f.usd == 0 for f in paid):
        return ""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    cost = sum(f.usd or 0.0 for f in paid) if all(f.usd is not None for f in paid) else None
    estimate = {**asdict(sum((f.tokens for f in paid), ChargedTokens())), "usd": cost}
    note = {"time": now, "estimate": estimate, "actual": asdict(actual)}
    plan.workspace.store.write_json(_LAST_RUN, note)
    return _side_by_side(estimate, actual)


def _side_by_side(expected: Mapping[str, Any], actual: Totals) -> str:
    price = "unknown" if expected["usd"] is None else f"{expected['usd']:.4f}"
    pairs = {
        "cost": (expected["usd"], actual.usd if actual.is_known else None),
        "input": (expected["input"], actual.input_tokens),
        "output": (expected["output"], actual.output_tokens),
    }
    errors = [f"{name} {e / a - 1:+.0%}" for name, (e, a) in pairs.items() if a and e is not None]
    error = f"; the estimate's error: {', '.join(errors)}".replace("%", " %") if errors else ""
    return (
        f"cost: {usd(actual)} USD, estimated {price}; {actual.input_tokens:,} input tokens, "
        f"estimated {expected['input']:,}; {actual.cached_tokens:,} of them cached, estimated "
        f"{expected['cached']:,}; {actual.output_tokens:,} output tokens, estimated "
        f"{expected['output']:,} ({ERROR}){error}"
    )


def usd(totals: Totals) -> str:
    """Return the cost in USD as text. If a price is unknown, return "≥ COST" or "unknown"."""
    if totals.is_known:
        return f"{totals.usd:,.4f}"
    return f"≥ {totals.usd:,.4f}" if totals.usd else "unknown"
