"""Post alerts to a webhook about failed runs and about problems that wait for a person."""

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.errors import ConfigError, RagPipelineError, counted
from rag_pipeline.orchestration import requests
from rag_pipeline.orchestration.internals import instance_of
from rag_pipeline.orchestration.names import identifier
from rag_pipeline.orchestration.observing import LastLook, following, sensor
from rag_pipeline.workspace import Workspace

_SECONDS = 10
_MOST = 20


def build_alerts(workspace: Workspace, one_run: bool) -> list[dg.SensorDefinition]:
    """Return the alert sensors, which are on by default, or [] if the file names no webhook."""
    config = workspace.config
    if config.alerts is None:
        return []
    variable = config.alerts.webhook_env
    standstill = _standstill(config.corpus, variable, following(workspace), one_run)
    return [_failures(config, variable), standstill]


def build_alert_of_mistake(file: Path, name: str, message: str) -> list[dg.SensorDefinition]:
    """Return a sensor that posts an error in a corpus file, or [] if the file names no webhook.

    If file and corpus have the same name, the sensor uses the cursor of the valid file's sensor.
    """
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    found = re.search(r"""^[^#\n]*\bwebhook_env["']?:\s*["']?(\w+)""", text, re.MULTILINE)

    def now() -> Workspace:
        raise ConfigError(message)

    return [_standstill(name, found[1], now)] if found else []


def _failures(config: CorpusConfig, variable: str) -> dg.SensorDefinition:
    # Dagster's own failure sensor does not repeat an alert that could not be posted.
    @sensor(
        identifier(config, "failure_alerts"),
        "Post each failed run with its reason to the webhook. If the webhook does not answer, try "
        "again at the next tick.",
    )
    def failure_alerts(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        instance = instance_of(context)
        failed: Literal[dg.DagsterEventType.RUN_FAILURE] = dg.DagsterEventType.RUN_FAILURE
        last = re.search(r"-?\d+", context.cursor or "")
        if last is None:
            newest = instance.fetch_run_status_changes(failed, limit=1).records
            context.update_cursor(str(newest[0].storage_id if newest else -1))
            return dg.SkipReason("runs that fail from now on are posted")
        wanted = dg.RunStatusChangeRecordsFilter(failed, after_storage_id=int(last[0]))
        told = 0
        for record in instance.fetch_run_status_changes(wanted, _MOST, ascending=True).records:
            run = instance.get_run_by_id(record.run_id)
            if run is not None and requests.is_run_of(config, run):
                try:
                    post(variable, config.corpus, _failed(instance, run, record))
                except ConfigError:
                    if not told:
                        raise
                    break  # a failed tick would lose the cursor of the posted runs
                told += 1
            context.update_cursor(str(record.storage_id))
        return dg.SkipReason(f"{counted(told, 'failed run')} posted")

    return failure_alerts


def _failed(instance: dg.DagsterInstance, run: dg.DagsterRun, failure: dg.EventLogRecord) -> str:
    partition = run.tags.get("dagster/partition")
    what = f"{run.job_name} {partition}" if partition else run.job_name
    kinds = {dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.ENGINE_EVENT}
    reasons = []
    for record in instance.get_records_for_run(run.run_id, of_type=kinds).records:
        event = record.event_log_entry.dagster_event
        data = event.event_specific_data if event else None
        told = getattr(data, "user_failure_data", None)
        error = getattr(data, "error", None)
        # The error of a project that can't be loaded has its reason in its causes.
        while error is not None and error.cause is not None:
            error = error.cause
        reasons.append((told.description if told else None) or (error.message if error else ""))
    event = failure.event_log_entry.dagster_event
    reason = "; ".join(r.strip() for r in reasons if r) or (event.message if event else "")
    return f"run {run.run_id} of {what} failed: {reason}"


def _standstill(
    corpus: str, variable: str, now: Callable[[], Workspace], one_run: bool = False
) -> dg.SensorDefinition:
    @sensor(
        f"{corpus.replace('-', '_')}__standstill_alerts",
        "Post the problems that wait for a person (a release that its gate refused, a document in "
        "quarantine) to the webhook when they change.",
    )
    def standstill_alerts(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        said = "nothing has changed since the last alert"
        try:
            workspace = now()
            last = LastLook(context, requests.sources_digest(workspace.config))
            if last.is_valid:
                return dg.SkipReason(said)
            problems = _problems(workspace, instance_of(context), one_run)
        except RagPipelineError as error:
            last, problems = LastLook(context, ""), [str(error)]
        if problems is None:
            return dg.SkipReason("a run is at work")
        digest = hashlib.sha256("\n".join(problems).encode()).hexdigest() if problems else ""
        if digest != (last.said or ""):
            more = [f"and {len(problems) - _MOST} more"] if len(problems) > _MOST else []
            listed = "waiting for a person: " + "; ".join([*problems[:_MOST], *more])
            post(variable, corpus, listed if problems else "nothing waits for a person any more")
            said = f"{counted(len(problems), 'problem')} posted"
        last.keep(digest)
        return dg.SkipReason(said)

    return standstill_alerts


def _problems(
    workspace: Workspace, instance: dg.DagsterInstance, one_run: bool
) -> list[str] | None:
    """Return the problems that wait for a person, or None while work is in progress."""
    if missing := requests.no_documents(workspace.config):
        return [missing]
    found = requests.survey(workspace, instance, one_run)
    if found.requests or found.waiting:
        return None
    problems = found.causes()
    unloaded = requests.why_not_loaded(workspace, instance, one_run)
    if unloaded:
        problems.append(f"changed files are not loaded: {unloaded}")
    quarantined = workspace.quarantine("documents").count()
    if quarantined:
        problems.append(f"{counted(quarantined, 'document')} in quarantine")
    return problems


def post(variable: str, corpus: str, text: str) -> None:
    """Post `{"text": …, "corpus": …}` to the URL in an environment variable.

    Raise ConfigError if the post fails. The error names only the variable, because URLs of webhooks
    are secrets.
    """
    address = os.environ.get(variable, "")
    if not address.startswith(("http://", "https://")):
        raise ConfigError(f"alerts.webhook_env: {variable} holds no http:// or https:// address")
    import httpx

    message = {"text": f"{corpus}: {text}", "corpus": corpus}
    try:
        answer = httpx.post(address, json=message, timeout=_SECONDS, follow_redirects=True)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = f"can't be reached: {error}"
    else:
        if answer.is_success:
            return
        reason = f"answered {answer.status_code}"
    raise ConfigError(f"alerts.webhook_env: the webhook of {variable} {reason}")
