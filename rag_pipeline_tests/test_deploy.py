"""The files under deploy/, held against what reads them as far as a machine without Docker can."""

import itertools
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from dagster._config import process_config
from dagster._core.instance import InstanceRef

from rag_pipeline.calls.database import shared_database
from rag_pipeline_tests.testing.checkout import copy_of_checkout
from rag_pipeline_tests.testing.command_line import rag
from rag_pipeline_tests.testing.servers import free_port, program

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
INSTANCES = sorted((DEPLOY / "instances").glob("*.yaml"))
VARIABLES = {
    "DAGSTER_POSTGRES_URL": "postgresql+psycopg2://dagster@localhost:5432/dagster",
    "RAG_LOGS_BUCKET": "logs",
}


@pytest.mark.parametrize("file", INSTANCES, ids=lambda file: file.stem)
def test_an_instance_file_is_what_dagster_accepts(file, tmp_path, monkeypatch):
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "dagster.yaml").write_text(file.read_text())
    ref = InstanceRef.from_dir(str(tmp_path))  # refuses unknown settings
    stores = ("run_storage", "event_storage", "schedule_storage", "compute_logs")
    for name in (*stores, "run_coordinator", "run_launcher"):
        data = getattr(ref, f"{name}_data")
        if data is None:
            continue
        found = getattr(import_module(data.module_name), data.class_name)
        result = process_config({"x": found.config_type()}, {"x": yaml.safe_load(data.config_yaml)})
        assert result.success, (data.class_name, [e.message for e in result.errors or ()])
    assert "Postgres" in ref.run_storage_data.class_name
    assert ref.run_coordinator_data.class_name == "QueuedRunCoordinator"


def instructions() -> list[tuple[str, list[str]]]:
    text = (DEPLOY / "Dockerfile").read_text()
    lines = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", text)).splitlines()
    return [(line.split()[0], shlex.split(line)[1:]) for line in lines if line.strip()]


def test_the_dockerfile_copies_what_is_there_and_installs_extras_that_exist():
    found = instructions()
    known = {"FROM", "ENV", "WORKDIR", "COPY", "RUN", "ARG", "USER", "EXPOSE", "CMD"}
    assert {name for name, _ in found} <= known
    assert found[0][0] == "FROM"
    defaults = dict(a[0].split("=") for name, a in found if name == "ARG")
    for name, arguments in found:
        if name == "COPY":
            for source in arguments[:-1]:
                for variable, value in defaults.items():
                    source = source.replace(f"${{{variable}}}", value)
                assert (ROOT / source).exists(), source
    installed = next(" ".join(a) for name, a in found if name == "RUN" and "pip" in a)
    extras = re.search(r"\.\[([\w,]+)\]", installed).group(1).split(",")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras) <= set(project["optional-dependencies"])
    assert next(a for name, a in found if name == "USER") == ["dagster"], "not as root"


def test_what_the_dockerfile_copies_can_be_installed(tmp_path):
    before_pip = itertools.takewhile(lambda one: one[0] != "RUN", instructions())
    parts = [part for name, copied in before_pip if name == "COPY" for part in copied[:-1]]
    copy_of_checkout(tmp_path, *parts)
    for build in ("build_editable", "build_wheel"):
        code = f"from setuptools.build_meta import {build}; {build}('{build}')"
        (tmp_path / build).mkdir()
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=tmp_path)
        (wheel,) = (tmp_path / build).glob("*.whl")
        with zipfile.ZipFile(wheel) as packed:
            names = {name.rpartition("/")[2]: name for name in packed.namelist()}
            assert b"[rag_pipeline.retrievers]" in packed.read(names["entry_points.txt"])
            assert (names.get("queries.jsonl") is None) == (build == "build_editable")


def test_the_compose_file_names_what_exists():
    services = COMPOSE["services"]
    assert set(services) == {"postgres", "redis", "webserver", "daemon", "worker"}
    known = "build command depends_on environment healthcheck image ports restart volumes".split()
    for name, service in services.items():
        assert set(service) <= set(known), name
        for needed in service.get("depends_on", {}):
            assert services[needed]["healthcheck"], "what is waited for says when it is ready"
        for volume in service.get("volumes", ()):
            assert volume.split(":")[0] in COMPOSE["volumes"]
        if "build" in service:
            assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).exists()
            instance = service["build"]["args"]["INSTANCE"]
            assert (DEPLOY / "instances" / f"{instance}.yaml").exists()
    assert "rag_pipeline.orchestration.celery_app" in services["worker"]["command"][1]
    assert (ROOT / "rag_pipeline" / "orchestration" / "celery_app.py").exists()


def test_the_servers_of_a_bucket_run_a_command_that_exists():
    services = yaml.safe_load((DEPLOY / "serving.yaml").read_text())["services"]
    program, *arguments = services["one"]["command"]
    assert program == "rag" and services["one"] == services["two"]
    assert rag(*arguments, "--help").code == 0
    assert rag(*arguments, "--no-such", "--help").code == 2
    assert set(services["balancer"]["depends_on"]) < set(services)


def test_all_containers_share_executor_broker_and_the_database_of_calls(monkeypatch):
    services = COMPOSE["services"]
    worker = services["worker"]["environment"]
    for name in ("DAGSTER_POSTGRES_URL", "RAG_EXECUTOR", "RAG_CELERY_BROKER"):
        assert all(
            services[s]["environment"][name] == worker[name] for s in ("webserver", "daemon")
        )
    assert worker["RAG_CELERY_BROKER"].startswith("redis://redis:")
    monkeypatch.setenv("DAGSTER_POSTGRES_URL", worker["DAGSTER_POSTGRES_URL"])
    database = shared_database()
    assert database is not None
    assert database.place == "postgresql://postgres:5432/dagster"
    assert "postgres" in services, "another container, the same for all"
    # Tables are in the store, which the containers share.
    (volume,) = services["worker"]["volumes"]
    assert all(services[s]["volumes"] == [volume] for s in ("webserver", "daemon"))
    assert volume.split(":")[1] == "/app/data/store"


def test_the_helm_values_are_what_the_chart_and_dagster_k8s_know():
    from dagster_aws.s3 import S3ComputeLogManager
    from dagster_k8s import K8sRunLauncher

    values = yaml.safe_load((DEPLOY / "helm" / "values.yaml").read_text())
    # The sections of the chart's own values.yaml, 1.13.
    sections = (
        "global dagster-user-deployments dagsterWebserver computeLogManager scheduler runLauncher "
        "pythonLogs postgresql generatePostgresqlPasswordSecret generateCeleryConfigSecret "
        "rabbitmq redis flower ingress dagsterDaemon extraManifests busybox rbacEnabled "
        "imagePullSecrets serviceAccount retention telemetry migrate"
    ).split()
    assert set(values) <= set(sections)
    launcher = values["runLauncher"]
    assert launcher["type"] == "K8sRunLauncher"
    assert snake(launcher["config"]["k8sRunLauncher"]) <= set(K8sRunLauncher.config_type())
    logs = values["computeLogManager"]["config"]["s3ComputeLogManager"]
    assert snake(logs) <= set(S3ComputeLogManager.config_type())
    (deployment,) = values["dagster-user-deployments"]["deployments"]
    assert {"name", "image", "dagsterApiGrpcArgs", "port"} <= set(deployment)
    assert {e["name"]: e["value"] for e in deployment["env"]}["RAG_EXECUTOR"] == "k8s"
    file = deployment["dagsterApiGrpcArgs"][1]
    assert (ROOT / file.removeprefix("/app/")).exists()


def snake(names) -> set[str]:
    return {re.sub(r"([A-Z])", lambda m: "_" + m[1].lower(), name) for name in names}


@pytest.mark.bench
def test_local_services_start_keep_their_data_and_stop():
    redis = pytest.importorskip("redis")
    psycopg2 = pytest.importorskip("psycopg2")
    program("redis-server")
    program("pg_ctl", "usr/lib/postgresql/*/bin")
    ports = {"REDIS_PORT": str(free_port()), "POSTGRES_PORT": str(free_port())}

    def services(action: str) -> None:
        command = [str(DEPLOY / "services.sh"), action, folder]
        environment = {**os.environ, **ports}
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)

    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # Postgres has a user of its own where root starts it
        try:
            services("start")
            services("start")
            variables = dict(
                part.split("=", 1)
                for part in shlex.split((Path(folder) / "env").read_text())
                if "=" in part
            )
            broker = redis.Redis.from_url(variables["RAG_CELERY_BROKER"])
            broker.set("key", "kept")
            url = variables["DAGSTER_POSTGRES_URL"].replace("+psycopg2", "")
            psycopg2.connect(url).close()
            assert Path(variables["DAGSTER_HOME"], "dagster.yaml").is_file()
            services("stop")
            with pytest.raises(redis.ConnectionError):
                broker.get("key")
            with pytest.raises(psycopg2.OperationalError):
                psycopg2.connect(url)
            services("start")
            assert broker.get("key") == b"kept"
        finally:
            services("stop")
