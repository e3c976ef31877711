"""Estimated costs of a run in words, and the comparison with its actual costs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rag_pipeline.calls.costs import ChargedTokens, Totals
from rag_pipeline.pipeline.dry_run import ERROR, PlannedStep, RunPlan, is_known
from rag_pipeline.workspace import Workspace

_LAST_RUN = "costs/last_run.json"
_NO_PRICE = "an unknown price, set the model's `price` in the corpus file"


def estimate_lines(found: Sequence[PlannedStep]) -> list[str]:
    """Return the estimated costs of a run, a line per paid model."""
    lines = []
    for model in dict.fromkeys(f.model for f in found if f.model):
        own = [f for f in found if f.model == model]
        tokens = sum((f.tokens for f in own), ChargedTokens())
        asks = sum(f.asks or 0 for f in own)
        texts = sum(f.calls or 0 for f in own)
        parts = [f"{asks:,} prompts"] * (asks > 0) + [f"{texts:,} texts"] * (texts > 0)
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
    """Write estimate and actual costs of a run to the store; return both in words.

    The charges after `position` in the ledger are the run's. Returns "" for a run without
    paid or expected calls.
    """
    if not plan.pays:
        return ""
    actual = Totals()
    for charge in plan.workspace.ledger.charges(after=position):
        actual.add(charge)
    if not actual.calls and all(f.usd == 0 for f in plan.planned if f.model):
        return ""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    estimate = _summary(plan.planned)
    note = {"time": now, "estimate": estimate, "actual": asdict(actual)}
    plan.workspace.store.write_json(_LAST_RUN, note)
    return _side_by_side(estimate, actual)


def last_outcome(workspace: Workspace) -> dict[str, Any] | None:
    """Return the note of the last run with paid calls, or None."""
    note: dict[str, Any] | None = workspace.store.read_json(_LAST_RUN)
    return note


def outcome_line(note: Mapping[str, Any]) -> str:
    """Return a run's note in words."""
    said = _side_by_side(note["estimate"], Totals(**note["actual"]))
    return f"last run ({note['time'][:16].replace('T', ' ')} UTC): {said}"


def _summary(estimate: Sequence[PlannedStep]) -> dict[str, Any]:
    tokens = sum((f.tokens for f in estimate if f.model), ChargedTokens())
    known = all(f.usd is not None for f in estimate if f.model)
    return {**asdict(tokens), "usd": sum(f.usd or 0.0 for f in estimate) if known else None}


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
    """Return a cost in words: exact, a lower bound, or unknown."""
    if totals.is_known:
        return f"{totals.usd:,.4f}"
    return f"≥ {totals.usd:,.4f}" if totals.usd else "unknown"
