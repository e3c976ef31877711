"""`rag optimize`: better prompts for the assistant's model."""

from rag_pipeline.assistant import sentence_vectors
from rag_pipeline.assistant.language_model import require_dspy
from rag_pipeline.cli.console import console, print_json, say
from rag_pipeline.corpus import Corpus


def optimize(corpus: Corpus, metric: str, trials: int, seed: int, as_json: bool) -> None:
    """Optimize a corpus's prompts and print the scores before and after."""
    require_dspy()
    from rag_pipeline.assistant.optimization import optimize_prompts

    spent = corpus.workspace.ledger.spent()
    progress = (lambda what: None) if as_json else lambda what: console.print(f"{what} …")
    made = optimize_prompts(corpus, sentence_vectors, metric, trials, seed, progress)
    if as_json:
        print_json(made.model_dump())
        return
    verdict = "adopted" if made.adopted else "not adopted; the prompts in use stay"
    say(
        f"prompts {made.number} ({made.model}): {made.metric} {_shown(made.score_before)} before, "
        f"{_shown(made.score_after)} after on {made.validated} queries: {verdict}"
    )
    console.print(f"cost: {corpus.workspace.ledger.spent() - spent:.4f} USD")


def _shown(score: float | None) -> str:
    return "not measured" if score is None else f"{100 * score:.1f}"
