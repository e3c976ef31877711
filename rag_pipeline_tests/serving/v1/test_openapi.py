from contextlib import suppress

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

EXAMPLES = 8


def test_the_document_lists_each_endpoint_with_its_models(serving):
    made = httpx.get(f"{serving().url}/openapi.json").json()
    assert made["openapi"] == "3.1.0"
    assert {"/v1/search", "/v1/ask", "/v1/documents/{document_id}"} <= set(made["paths"])
    asked = made["paths"]["/v1/ask"]["post"]
    assert asked["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/AskBody"
    }
    assert "text/event-stream" in asked["responses"]["200"]["content"]
    (named,) = [
        p
        for p in made["paths"]["/v1/documents/{document_id}"]["get"]["parameters"]
        if p["in"] == "path"
    ]
    assert named["name"] == "document_id" and named["required"]
    names = [o["operationId"] for path in made["paths"].values() for o in path.values()]
    assert len(names) == len(set(names))


@pytest.mark.long
def test_no_generated_request_is_a_server_error(serving):
    schemathesis = pytest.importorskip("schemathesis")
    server = serving(requests_per_minute=10**9)
    document = httpx.get(f"{server.url}/openapi.json").json()
    # A list that is too long at each level of nested filters takes gigabytes.
    compound = document["components"]["schemas"]["Compound"]["properties"]["filters"]
    compound["items"] = {"$ref": "#/components/schemas/Comparison"}
    api = schemathesis.openapi.from_dict(document)
    statuses = {}

    def send(case):
        status = case.call(base_url=server.url, timeout=60).status_code
        assert status < 500, case.as_curl_command()
        statuses.setdefault(case.operation.label, set()).add(status)

    bounded = settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=[*HealthCheck],
    )
    for found in api.get_all_operations():
        operation = found.ok()
        for mode in schemathesis.GenerationMode:
            case = operation.as_strategy(generation_mode=mode)
            with suppress(Unsatisfiable):  # without parameters nothing can be wrong
                bounded(given(case=case)(send))()
    assert len(statuses) == sum(len(path) for path in api.raw_schema["paths"].values())
