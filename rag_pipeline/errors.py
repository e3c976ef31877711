"""Every error that the pipeline raises on purpose, in one tree.

    RagPipelineError
    ├── ConfigError            a corpus file or a setting is wrong
    ├── InputError             a document, query or chunks file is wrong
    │   └── DocumentError      one document can't be used; it is quarantined, the rest go on
    ├── StoreError             a table, index or manifest is missing, torn or unreachable
    │   └── NotReleasedError   the corpus has no release yet
    ├── ProviderError          a model failed
    │   └── MissingExtraError  an optional package is not installed
    └── CheckFailedError       a blocking check refused the data

A message names the value, the place (file, corpus, variant, document) and what to do.
"""


class RagPipelineError(Exception):
    """Root of all errors whose message is meant for the user; shown without a traceback."""


class ConfigError(RagPipelineError):
    """A corpus file or a setting is wrong."""


class InputError(RagPipelineError):
    """A document, query or chunks file is wrong."""


class DocumentError(InputError):
    """One document can't be used; `reason` is what quarantine shows."""

    def __init__(self, document_id: str, reason: str) -> None:
        super().__init__(f"{document_id}: {reason}")
        self.document_id = document_id
        self.reason = reason


class StoreError(RagPipelineError):
    """A table, index or manifest is missing, torn or unreachable."""


class NotReleasedError(StoreError):
    """The corpus has no release yet."""


class ProviderError(RagPipelineError):
    """A model or its provider failed."""


class MissingExtraError(ProviderError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; run: pip install 'rag_pipeline[{extra}]'")


class CheckFailedError(RagPipelineError):
    """A blocking check refused the data."""
