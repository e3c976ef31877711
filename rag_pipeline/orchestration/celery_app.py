"""Define the app for `celery -A rag_pipeline.orchestration.celery_app worker -Q dagster`.

Workers and executor have the same settings (see `executors`).
"""

from dagster_celery.config import DEFAULT_CONFIG, dict_wrapper
from dagster_celery.make_app import make_app
from dagster_celery.tasks import create_execute_job_task, create_resume_job_task, create_task

from rag_pipeline.orchestration.executors import celery_settings

_settings = celery_settings()
app = make_app(
    {
        "broker": _settings["broker"],
        "backend": _settings["backend"],
        "config_source": dict_wrapper({**DEFAULT_CONFIG, **_settings["config_source"]}),
    }
)
execute_plan = create_task(app)
execute_job = create_execute_job_task(app)
resume_job = create_resume_job_task(app)
