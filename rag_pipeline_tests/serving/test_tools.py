import json

import pytest
from fastmcp.exceptions import ToolError

from rag_pipeline.serving.tools import build_mcp, dataset_names
from rag_pipeline_tests.testing.app_server import TOOLS, call_mcp
from rag_pipeline_tests.testing.corpora import DOCUMENTS

CALLS = {
    "files": ("file_discover", {"query": "parental leave"}),
    "filtered files": (
        "file_discover",
        {"query": "parental leave", "where": "document_id LIKE 'nda/%'"},
    ),
    "filtered answer": (
        "assistant",
        {"query": "How expensive may a hotel be?", "where": "document_id = 'policy/travel.md'"},
    ),
    "follow-up": (
        "assistant",
        {"query": "And the Cedar NDA?", "turns": ["Which law governs the Acme NDA?"]},
    ),
    "chunks": (
        "search_chunks",
        {"query": "governing law", "document_name": "nda/cedar.txt", "top_k_return": 1},
    ),
    "filtered": (
        "search_chunks",
        {"query": "governing law", "where": "document_id LIKE 'policy/%'"},
    ),
    "document": ("get_document", {"document_name": "policy/leave.md", "start": 10}),
    "datasets": ("list_datasets", {}),
    "health": ("health", {}),
}


def test_every_tool_answers_over_http(serving):
    stages = []

    async def work(client):
        async def progress(done, total, message):
            stages.append(message)

        question = {"query": "How expensive may a hotel be?"}
        return {
            "tools": {tool.name for tool in await client.list_tools()},
            "assistant": await client.call_tool("assistant", question, progress_handler=progress),
            "resource": await client.read_resource("document://tiny/nda/acme.txt"),
            "all": await client.read_resource("datasets://all"),
            **{name: await client.call_tool(*call) for name, call in CALLS.items()},
        }

    said = call_mcp(f"{serving().url}/mcp", work)
    assert said["tools"] == set(TOOLS)
    answer = said["assistant"].structured_content
    assert "180 euros" in answer["answer"]
    assert answer["sources"][0]["verified"] is True
    assert stages[:3] == ["intent", "search", "answer"]
    assert said["files"].structured_content["result"][0]["document_name"] == "policy/leave.md"
    among = {f["document_name"] for f in said["filtered files"].structured_content["result"]}
    assert among
    assert all(name.startswith("nda/") for name in among)
    filtered = said["filtered answer"].structured_content
    assert {f["document_name"] for f in filtered["files"]} == {"policy/travel.md"}
    assert "180 euros" in filtered["answer"]
    stage = said["follow-up"].structured_content["stages"][0]["detail"]
    assert stage["question"] == "And the Cedar NDA?"
    assert stage["rewritten"] == "Which law governs the Cedar NDA?"
    (chunk,) = said["chunks"].structured_content["result"]
    assert DOCUMENTS["nda/cedar.txt"][chunk["start"] : chunk["end"]] == chunk["text"]
    kept = {c["document_name"] for c in said["filtered"].structured_content["result"]}
    assert kept == {"policy/leave.md", "policy/travel.md"}
    document = said["document"].structured_content
    assert document["text"] == DOCUMENTS["policy/leave.md"][10:]
    assert document["next_start"] is None
    assert said["datasets"].structured_content["result"][0]["name"] == "tiny"
    assert said["health"].structured_content["status"] == "ok"
    assert said["resource"][0].text == DOCUMENTS["nda/acme.txt"]
    assert json.loads(said["all"][0].text)[0]["release"] == "release-000001"


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("assistant", {"query": " "}, "the query is empty"),
        ("assistant", {"query": "x" * 4001}, "4000"),
        ("search_chunks", {"query": "law", "dataset_info": "other"}, "no dataset 'other'"),
        ("search_chunks", {"query": "law", "top_k_return": 1000}, "100"),
        ("get_document", {"document_name": "../../etc/passwd"}, "no document"),
        ("get_document", {"document_name": "nda/acme.txt", "dataset_info": "[{]"}, "not a list"),
    ],
)
def test_what_cannot_be_done_is_an_error_that_says_why(own, tool, arguments, message):
    with pytest.raises(ToolError, match=message):
        call_mcp(build_mcp(own), lambda client: client.call_tool(tool, arguments))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", None),
        ("a", ["a"]),
        ("a, b", ["a", "b"]),
        ('["a", "b"]', ["a", "b"]),
        ('[{"id": "a", "source_path": ""}]', ["a"]),
        ('{"id": "a"}', ["a"]),
    ],
)
def test_datasets_are_named_as_clients_do(text, names):
    assert dataset_names(text) == names
