"""`rag plan`: what a run would do, per asset and partition."""

import json
from dataclasses import asdict
from pathlib import Path

import typer
from rich import box
from rich.table import Table

from rag_pipeline.cli.console import console
from rag_pipeline.config import load_config
from rag_pipeline.planning import Step, StepPlan, plan_step, steps, upstream
from rag_pipeline.workspace import Workspace


def show_plan(file: Path, as_json: bool) -> None:
    """Print every step with its stale and orphaned documents and the calls it would make."""
    workspace = Workspace(load_config(file))
    plans: dict[Step, StepPlan] = {}
    follows: set[Step] = set()
    for step in steps(workspace.config):
        plans[step] = plan_step(workspace, step, count=True)
        before = upstream(workspace.config, step)
        if any(b in follows or (b in plans and plans[b].must_run) for b in before):
            follows.add(step)
    if as_json:
        rows = [
            {**asdict(p), "step": None, "asset": p.step.asset, "partition": p.step.partition}
            | {"follows": p.step in follows}
            for p in plans.values()
        ]
        for row in rows:
            del row["step"]
        typer.echo(json.dumps(rows, indent=1))
        return
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("asset")
    table.add_column("partition", overflow="fold")
    for name in ("stale", "orphaned", "current", "calls"):
        table.add_column(name, justify="right")
    table.add_column("")
    busy = 0
    for step, plan in plans.items():
        runs = plan.must_run or step in follows
        busy += runs
        calls = "?" if plan.calls is None or step in follows else str(plan.calls)
        waits = f"+{plan.waiting}" if plan.waiting else ""
        note = "runs" if plan.must_run else "follows" if step in follows else "current"
        table.add_row(
            plan.step.asset,
            plan.step.partition or "",
            f"{plan.stale}{waits}",
            str(plan.orphaned),
            str(plan.current),
            calls,
            note,
        )
    console.print(table)
    if busy:
        console.print(
            f"{busy} of {len(plans)} steps would run. 'follows': what it reads from changes first, "
            f"so its numbers ('?') are known only then."
        )
    else:
        console.print("everything is current: a run would do nothing")
