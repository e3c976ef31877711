"""Node's clients against the server: the reference MCP SDK, and the AI SDK of the example."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rag_pipeline_tests.testing.app_server import TOOLS
from rag_pipeline_tests.testing.corpora import DOCUMENTS
from rag_pipeline_tests.testing.web import web

EXAMPLE = Path(__file__).parents[2] / "examples" / "vercel-ai-sdk"
DRIVE = Path(__file__).parent / "drive.mjs"
TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """Return a folder with the scripts and the packages that the example names."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("no node and npm on this machine")
    folder = tmp_path_factory.mktemp("node")
    for file in (*EXAMPLE.glob("*.*"), DRIVE):
        shutil.copy(file, folder)
    quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    wanted = [
        "npm",
        "install",
        *quiet,
        "--prefer-offline",
        "--fetch-retries=0",
        "@modelcontextprotocol/sdk@^1.20",
    ]
    made = subprocess.run(wanted, cwd=folder, capture_output=True, text=True, timeout=240)
    if made.returncode:
        pytest.skip(f"npm can't install here: {made.stderr[-300:]}")
    return folder


def node(folder, *arguments, **environment):
    made = subprocess.run(
        ["node", *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert made.returncode == 0, made.stderr
    return made.stdout


def test_the_reference_sdk_drives_every_tool(scripts, serving):
    said = json.loads(node(scripts, "drive.mjs", f"{serving(token=TOKEN).url}/mcp", TOKEN))
    assert said["tools"] == TOOLS
    answer = said["assistant"]["structuredContent"]
    assert "180 euros" in answer["answer"]
    assert answer["sources"][0]["verified"] is True
    assert said["stages"][:3] == ["intent", "search", "answer"]
    assert not any(said[tool].get("isError") for tool in TOOLS)
    assert said["wrong"]["isError"] is True
    assert "the query is empty" in said["wrong"]["content"][0]["text"]
    assert said["resources"] == ["datasets://all"]
    assert said["document"]["contents"][0]["text"] == DOCUMENTS["nda/acme.txt"]


def test_the_example_asks_the_server(scripts, serving):
    url = f"{serving(token=TOKEN).url}/mcp"
    said = node(scripts, "ask.mjs", "How expensive may a hotel be?", RAG_URL=url, RAG_TOKEN=TOKEN)
    lines = said.splitlines()
    assert lines[0] == f"tools: {', '.join(TOOLS)}"
    assert lines[1].startswith("passage: policy/travel.md ")
    assert "answer: " in said
    assert "180 euros" in said
    assert any(line.startswith("[1] policy/travel.md ") for line in lines[2:])


def searching_once(path, asked):
    """An OpenAI-compatible model that searches once, and then repeats the tool's result."""
    last = asked["messages"][-1]
    message = {"role": "assistant", "content": last["content"]}
    if last["role"] != "tool":
        arguments = json.dumps({"query": "hotel", "top_k_return": 1})
        function = {"name": "search_chunks", "arguments": arguments}
        call = {"id": "call-1", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return 200, {}, {"id": "1", "model": "m", "choices": [choice], "usage": usage}


def test_a_model_of_the_ai_sdk_calls_the_tools(scripts, serving):
    with web(searching_once) as model:
        said = node(
            *(scripts, "ask.mjs", "How expensive may a hotel be?"),
            RAG_URL=f"{serving().url}/mcp",
            LLM_API_URL=f"{model.url}/v1",
            LLM_MODEL="m",
        )
    assert "called: search_chunks" in said
    assert "policy/travel.md" in said.partition("answer:")[2]
    first, second = (body for _, body in model.asked)
    offered = {tool["function"]["name"]: tool["function"] for tool in first["tools"]}
    assert sorted(offered) == TOOLS
    assert offered["search_chunks"]["parameters"]["required"] == ["query"]
    assert [m["role"] for m in second["messages"]] == ["system", "user", "assistant", "tool"]
