"""The only place that imports Dagster: the asset graph over the stages."""
