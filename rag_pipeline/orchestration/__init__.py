"""The only place that imports Dagster: the asset graph over the stages."""

import warnings

from dagster import BetaWarning

# Dagster says this of its own code whenever it loads asset checks; no user can help it.
warnings.filterwarnings("ignore", "Parameter `execution_type` of function", BetaWarning)
