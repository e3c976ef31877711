"""Compare the estimated cost of calls with the corpus's budget, before they are made."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rag_pipeline.calls.costs import ESTIMATE_ERROR
from rag_pipeline.errors import BudgetError
from rag_pipeline.pipeline.dry_run.plan import RERANKING, PlannedStep, plan_run
from rag_pipeline.pipeline.dry_run.priced_models import pays
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.workspace import Workspace

ERROR = f"± {ESTIMATE_ERROR:.0%}".replace("%", " %")
"""Relative error of an estimate, as messages write it."""


def is_known(planned: Sequence[PlannedStep]) -> bool:
    """Return whether the number of calls of every paid model is known."""
    return all(p.calls is not None and p.asks is not None for p in planned if p.model)


def require_budget(workspace: Workspace, planned: Sequence[PlannedStep]) -> None:
    """Raise BudgetError if planned steps cost more than is left of the budget."""
    budget = workspace.config.budget_usd
    if budget is None:
        return
    # An estimated reranking may be answered completely if an earlier run has paid for one.
    before = {c.partition for c in workspace.ledger.charges() if c.asset == "retrieval_run"}
    expected = sum(
        p.usd or 0.0
        for p in planned
        if p.step.asset != RERANKING or p.exact or p.step.partition not in before
    )
    spent = workspace.ledger.spent()
    unpriced = sorted({p.model for p in planned if p.model and p.usd is None and is_known([p])})
    if unpriced:
        raise BudgetError(
            f"the price of {', '.join(unpriced)} is unknown, so the run can't be held within "
            f"budget_usd {budget:g}; set the model's `price` in the corpus file (USD per million "
            f"tokens: `price: {{input: …, output: …}}`), or leave the budget out"
        )
    if expected and spent + expected > budget:
        raise BudgetError(
            f"a run would cost about {expected:.4f} USD ({ERROR}) and {spent:.4f} are spent: more "
            f"than budget_usd {budget:g}; raise it, or leave out configurations"
        )


@dataclass(slots=True)
class RunPlan:
    """The steps of a run, in order, and their estimated cost."""

    workspace: Workspace
    steps: Sequence[Step]
    always: bool = False
    """Whether to estimate the cost without a budget too, to show it."""
    pays: bool = field(init=False)
    planned: Sequence[PlannedStep] = field(init=False, default=())
    _refusal: BudgetError | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.pays = any(pays(self.workspace, step) for step in self.steps)

    def estimate(self) -> None:
        """Estimate the cost unless it is known.

        Raises BudgetError if it is over the budget, then also in every later call.
        """
        if self._refusal is not None:
            raise self._refusal
        wanted = self.always or self.workspace.config.budget_usd is not None
        if not self.pays or not wanted or (self.planned and is_known(self.planned)):
            return
        self.planned = plan_run(self.workspace, self.steps)
        try:
            require_budget(self.workspace, self.planned)
        except BudgetError as error:
            self._refusal = error
            raise
