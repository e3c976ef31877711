"""Corpus files that can't be used, each with a part of what is said of it."""

from typing import Any

WRONG_SETTINGS: list[tuple[str, Any, str]] = [
    ("chunkings/semantic_1_5/threshold", "x", "chunkings.semantic_1_5.threshold: 'x'"),
    ("chunkings/semantic_1_5/threshold", -1, "chunkings.semantic_1_5.threshold: -1"),
    (
        "chunkings/semantic_1_5/treshold",
        2,
        "chunkings.semantic_1_5.treshold: unknown setting; allowed here: embedding,",
    ),
    (
        "chunkings/semantic_1_5/method",
        "semantik",
        "chunkings.semantic_1_5.method: 'semantik' is not one of: 'fixed', 'given'",
    ),
    ("chunkings/semantic_1_5/method", KeyError, "chunkings.semantic_1_5.method: missing"),
    # A variant may be called as another method, or as a setting.
    (
        "chunkings/fixed",
        {"method": "recursive", "tokens": 1},
        "chunkings.fixed.tokens: unknown setting; allowed here: max_characters, max_tokens,",
    ),
    ("chunkings/fixed", {}, "chunkings.fixed.method: missing; allowed: 'fixed', 'given',"),
    ("chunkings/tokens", {}, "chunkings.tokens.method: missing; allowed: 'fixed', 'given',"),
    (
        "chats",
        {"c": {"provider": "openai", "model": "m", "price": {"in": 1}}},
        "chats.c.price.in: unknown setting; allowed here: batch, cached_input, input, output,",
    ),
    ("chunkings/a.b", {"method": "fixed"}, "chunkings.a.b: 'a.b': use 1 to 64 letters"),
    (
        "chunkings/f",
        {"method": "fixed", "tokens": 10, "overlap": 20},
        "chunkings.f: overlap 20 must be smaller than tokens 10",
    ),
    ("chunkings", None, "chunkings: None"),
    ("chunkings", {}, "chunkings: {}"),
    ("retrievers/hybrid/fusion", "sum", "retrievers.hybrid.fusion: 'sum' is not one of: 'rrf'"),
    ("retrievers/hybrid/k", 0, "retrievers.hybrid.k: 0"),
    ("retrievers/hybrid/dense_weight", -0.1, "retrievers.hybrid.dense_weight: -0.1"),
    ("embeddings/minilm/provider", "gpt", "embeddings.minilm.provider: 'gpt' is not one of"),
    ("documents", KeyError, "documents: missing"),
    ("documents/inclde", [], "documents.inclde: unknown setting; allowed here: exclude,"),
    ("documents/max_bytes", 0, "documents.max_bytes: 0"),
    ("corpus", "a b", "corpus: 'a b': use 1 to 64 letters"),
    ("serv", "x", "serv: unknown setting; allowed here: "),
    (
        "assistant",
        {"passages": 3},
        "assistant.passages: this setting is called evaluation.answers.contexts",
    ),
    ("serve", "nope", "serve: 'nope' is not one of: best, semantic_1_5.none"),
    ("baseline", "nope", "baseline: 'nope' is not one of: semantic_1_5.none"),
    (
        "gate",
        {"metric": []},
        "gate.metric: unknown setting; allowed here: margin, maximum_missing, "
        "maximum_missing_chunks, metrics, minimum_queries",
    ),
    (
        "configurations/1/chunking",
        "nope",
        "configurations.1.chunking: 'nope' is not one of: *, semantic_1_5, recursive_500",
    ),
    ("configurations/0/name", "all", "configurations.0.name: 'all' would name 4 config"),
    ("configurations/1/name", "semantic 1", "configurations.1.name: 'semantic 1': use 1 to 64"),
    ("configurations", [], "configurations: []"),
    ("schedule", "every day", "schedule: 'every day': write a cron expression: minute, hour"),
    ("schedule", "0 25 * * *", "schedule: '0 25 * * *': write a cron expression: minute, hour"),
    ("sensor_hours", "22:00", "sensor_hours: '22:00': write begin and end in UTC"),
    ("owners", ["Bo"], "owners.0: 'Bo': write an email address (top-level domain of 2 to 7"),
    ("lexical", {"language": "klingon"}, "lexical.language: 'klingon' is not one of"),
]
"""Place, value (`KeyError` where it is left out) and message."""
