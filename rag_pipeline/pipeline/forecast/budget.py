"""Hold what calls would cost against the corpus's budget, before they are made."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rag_pipeline.calls.costs import ESTIMATE_ERROR
from rag_pipeline.errors import BudgetError
from rag_pipeline.pipeline.forecast.payees import pays
from rag_pipeline.pipeline.forecast.steps import RERANKING, Forecast, forecast
from rag_pipeline.pipeline.planning import Step
from rag_pipeline.workspace import Workspace

ERROR = f"± {ESTIMATE_ERROR:.0%}".replace("%", " %")
"""Relative error that an estimate may have, as messages write it."""


def is_known(found: Sequence[Forecast]) -> bool:
    """Return whether it is known what calls would be made to models that are paid."""
    return all(f.calls is not None and f.asks is not None for f in found if f.model)


def hold_budget(workspace: Workspace, found: Sequence[Forecast]) -> None:
    """Raise BudgetError where what is foretold would cost more than is left of the budget."""
    budget = workspace.config.budget_usd
    if budget is None:
        return
    # A reranking that is only estimated may all be answered where a run before has paid for it.
    before = {c.partition for c in workspace.ledger.charges() if c.asset == "retrieval_run"}
    sure = [
        f for f in found if f.step.asset != RERANKING or f.exact or f.step.partition not in before
    ]
    expected = sum(f.usd or 0.0 for f in sure)
    spent = workspace.ledger.spent()
    unpriced = sorted({f.model for f in found if f.model and f.usd is None and is_known([f])})
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
class Outlook:
    """The steps of a run, in order, and their estimated cost."""

    workspace: Workspace
    wanted: Sequence[Step]
    always: bool = False
    """Whether to estimate the cost even without a budget, to show it."""
    pays: bool = field(init=False)
    found: Sequence[Forecast] = field(init=False, default=())
    _refusal: BudgetError | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.pays = any(pays(self.workspace, step) for step in self.wanted)

    def look_ahead(self) -> None:
        """Estimate the cost until it is known; raise BudgetError, from then on, over the budget."""
        if self._refusal is not None:
            raise self._refusal
        wanted = self.always or self.workspace.config.budget_usd is not None
        if not self.pays or not wanted or (self.found and is_known(self.found)):
            return
        self.found = forecast(self.workspace, self.wanted)
        try:
            hold_budget(self.workspace, self.found)
        except BudgetError as error:
            self._refusal = error
            raise
