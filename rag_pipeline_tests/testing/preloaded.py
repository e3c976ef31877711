"""What processes of tests import; once for all that are forked.

What starts threads when it is imported is not among it: ONNX Runtime, SciPy's linear algebra.
The command line is not among it: it looks for the plugins that are installed.
"""

import gc
import importlib
import warnings

import bm25s  # noqa: F401
import dagster as dg
import tokenizers  # noqa: F401
import typer  # noqa: F401
import upath  # noqa: F401

import rag_pipeline.models.chat
import rag_pipeline.orchestration.one_run  # noqa: F401
from rag_pipeline import imports
from rag_pipeline.evaluation import calibration
from rag_pipeline.evaluation.general_questions import GENERAL
from rag_pipeline.imports import import_great_expectations, import_lancedb
from rag_pipeline.loading.quality import dictionary
from rag_pipeline.release.checks import _batch_definition
from rag_pipeline.report import _template
from rag_pipeline_tests.testing import in_memory  # noqa: F401

import_great_expectations()
import_lancedb()
importlib.import_module("lance")  # not before it, or all of LanceDB is imported
_batch_definition()
_template()
dictionary("en")
dg.DagsterInstance.ephemeral().dispose()  # imports its storage
vars(calibration)["GENERAL"] = GENERAL[::5]  # as in the tests' own processes
warnings.simplefilter("ignore")
imports._installed.cache_clear()  # each process has its own
gc.collect()
gc.freeze()  # or each process goes through it all, and so copies it
