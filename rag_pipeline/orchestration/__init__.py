"""Build the assets, checks, jobs and sensors of a corpus in Dagster."""
