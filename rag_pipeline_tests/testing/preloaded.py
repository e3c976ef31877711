"""What processes of tests import; once for all that are forked.

The command line is not among it: it looks for the plugins that are installed.
"""

import gc
import warnings

import typer  # noqa: F401

import rag_pipeline.models.chat
import rag_pipeline.orchestration.runner  # noqa: F401
from rag_pipeline.config import plugins
from rag_pipeline.imports import import_great_expectations, import_lancedb
from rag_pipeline.release.checks import _batch_definition

import_great_expectations()
import_lancedb()
_batch_definition()
warnings.simplefilter("ignore")
plugins._installed.cache_clear()  # each process has its own
gc.collect()
gc.freeze()  # or each process goes through it all, and so copies it
