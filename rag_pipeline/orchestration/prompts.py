"""Build the asset of the assistant's optimized prompts, which only a person starts."""

from typing import Any

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.corpus import Corpus
from rag_pipeline.orchestration.assets import RETRIES, clear_failures, spec_of
from rag_pipeline.orchestration.names import asset_key, identifier
from rag_pipeline.pipeline.registry import ASSETS


class PromptSettings(dg.Config):
    """The settings of `optimize_prompts`."""

    metric: str = "EntityF1"
    trials: int = 3
    seed: int = 0


def build_prompt_assets(
    config: CorpusConfig, retries: dg.RetryPolicy | None = RETRIES
) -> list[dg.AssetsDefinition]:
    """Return a list with the prompt asset, or an empty list if the assistant has no model."""
    if config.assistant.chat is None:
        return []
    corpus = Corpus(config)

    def assistant_prompts(
        context: dg.AssetExecutionContext, config: PromptSettings
    ) -> dg.MaterializeResult[Any]:
        spent = corpus.workspace.ledger.spent()
        with clear_failures("assistant_prompts"):
            from rag_pipeline.assistant import sentence_vectors
            from rag_pipeline.assistant.language_model import require_dspy

            require_dspy()
            from rag_pipeline.assistant.optimization import optimize_prompts

            made = optimize_prompts(corpus, sentence_vectors, **config.model_dump())
        scores = {"score_before": made.score_before, "score_after": made.score_after}
        metadata: dict[str, Any] = {
            "model": made.model,
            "metric": made.metric,
            "validated_queries": made.validated,
            **{name: round(score, 4) for name, score in scores.items() if score is not None},
            "adopted": made.adopted,
            "usd": round(corpus.workspace.ledger.spent() - spent, 6),
        }
        version = dg.DataVersion(str(made.number))
        return dg.MaterializeResult(metadata=metadata, data_version=version)

    name = "assistant_prompts"
    deps = [asset_key(config, before) for before in ASSETS[name].reads]
    built: dg.AssetsDefinition = dg.multi_asset(
        name=identifier(config, name), specs=[spec_of(config, name, deps)], retry_policy=retries
    )(assistant_prompts)
    return [built]
