"""Define the commands that read the release: search, ask, optimize, serve."""

import shlex
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from rag_pipeline.cli.console import console, counted, errors, print_json, say, tell, visible
from rag_pipeline.cli.find import find_corpus_file, open_corpus, rag, shown_path
from rag_pipeline.cli.options import (
    CorpusArgument,
    CorpusOption,
    JsonFlag,
    argument,
    flag,
    names,
    option,
)
from rag_pipeline.errors import InputError, import_extra
from rag_pipeline.memory import collection_paused

app = typer.Typer()

_SLOW_SECONDS = 2.0
_WHERE = (
    "Filter in SQL, e.g. \"document_id LIKE 'policies/%'\" or "
    "\"json_get_string(metadata, 'suffix') = '.pdf'\"."
)

AsOption = Annotated[str | None, option("LABELS", "Search as a caller with these labels.", "--as")]
NoServerFlag = Annotated[bool, flag("--no-server", "Do not ask a running `rag serve`.")]
_FURTHER = {"allow_extra_args": True}


@app.command(context_settings=_FURTHER)
def search(
    context: typer.Context,
    query: Annotated[str, argument("QUERY", "The question or words to search for.")],
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    k: Annotated[int, option("N", "How many chunks to return, 1 to 1000.", "-k", "--k")] = 5,
    where: Annotated[str | None, option("SQL", _WHERE)] = None,
    labels: AsOption = None,
    no_server: NoServerFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Search the release.

    If `rag serve` runs for the same corpus file and user, that server answers, which is faster.

    \b
    Examples:
      rag search "notice period for termination" -k 3
      rag search "notice period for termination" contracts
      rag search "sick leave" --where "document_id LIKE 'policies/%'" --json
      rag search "notice period for termination" --as hr,legal
    """
    if not 1 <= k <= 1000:
        raise InputError(f"-k {k} is not in the range of 1 to 1000")
    file = _file_of(context, query, corpus, named)
    asked = {"query": query, "k": k, "where": where, "labels": labels}
    made = _answered(file, no_server, "search", asked)
    found = made["chunks"]
    if as_json:
        print_json(found)
        return
    from rag_pipeline.cli.passages import show_passages
    from rag_pipeline.client.records import Passage

    show_passages([Passage(corpus="", **one) for one in found])
    for told in made["unread"]:
        tell(f"[yellow]{visible(told)}[/yellow]")


@app.command(short_help="Answer a question, with sources.", context_settings=_FURTHER)
def ask(
    context: typer.Context,
    question: Annotated[str, argument("QUESTION", "The question to answer.")],
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    document: Annotated[str | None, option("ID", "Only this document.", "--document", "-d")] = None,
    instructions: Annotated[str, option("TEXT", "Guidance for the chat model, if any.")] = "",
    follow: Annotated[
        list[str] | None,
        option("QUESTION", "An earlier question; repeat the option for several, oldest first."),
    ] = None,
    trace: Annotated[bool, flag("--trace", "Show each stage of the assistant.")] = False,
    labels: AsOption = None,
    no_server: NoServerFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Answer a question from the release, with sources.

    If the corpus file sets no chat model (`assistant.chat`), the answer consists of verbatim
    sentences. Each source is compared with its document. If `rag serve` runs for the same corpus
    file and user, that server answers, which is faster.

    \b
    Examples:
      rag ask "How long does confidentiality last under the Acme NDA?"
      rag ask "Compare the notice periods" contracts --trace
      rag ask "When is a doctor's note needed?" -d policy/leave.md --json
      rag ask "And the Cedar NDA?" --follow "Which law governs the Acme NDA?"
    """
    file = _file_of(context, question, corpus, named)
    asked: dict[str, Any] = {"question": question, "document_id": document}
    asked |= {"instructions": instructions, "turns": follow or [], "labels": labels}
    try:
        made = _answered(file, no_server, "ask", asked)
    except InputError:
        from rag_pipeline.cli.documents import unknown_document

        if document and (reason := unknown_document(open_corpus(str(file)).workspace, document)):
            raise InputError(reason) from None
        raise
    if as_json:
        print_json(made)
        return
    from rag_pipeline.cli.passages import show_answer
    from rag_pipeline.client.records import Answer

    show_answer(Answer.model_validate(made), trace)


def _file_of(context: typer.Context, question: str, corpus: str | None, named: str | None) -> Path:
    """Return the corpus file. Raise InputError if more follows than a question and a corpus."""
    if context.args:
        whole = shlex.join([" ".join([question, corpus or "", *context.args])])
        raise InputError(
            f"a question is one argument, in quotes: rag {context.command.name} {whole}"
        )
    is_word = corpus and len(question.split()) == 1
    hint = ". A question of several words is one argument: put it in quotes" if is_word else ""
    return find_corpus_file(corpus, named, hint)


def _answered(file: Path, no_server: bool, work: str, asked: dict[str, Any]) -> Any:
    """Return the answer of a running server of the same corpus, or else of this process."""
    from rag_pipeline.serving.local import WORK, ask_server, serves_earlier_file

    made = None if no_server else ask_server(file, work, asked)
    if made is None:
        if not no_server and serves_earlier_file(file):
            errors.print(
                f"`rag serve` runs with an earlier {escape(shown_path(file))}, so this command "
                f"works alone, which is slower; restart the server to serve the edited file"
            )
        began = time.monotonic()
        with collection_paused(), console.status("searching"):
            made = WORK[work](open_corpus(str(file)), **asked)
        is_watched = errors.is_terminal and console.is_terminal and not console.quiet
        if is_watched and not no_server and time.monotonic() - began > _SLOW_SECONDS:
            server = escape(rag("serve", file=file))
            errors.print(f"[dim]`{server}` answers such commands faster while it runs[/dim]")
    return made


@app.command(short_help="Prove the sources of a kept answer.")
def verify(
    answer: Annotated[Path, argument("ANSWER", "A file with the JSON of an answer.")],
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    bundle: Annotated[Path | None, option("FILE", "Read the release from a bundle only.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Prove that the documents of a kept answer's release contain the answer's sources.

    ANSWER is the output of `rag ask --json`, of the server's `/v1/ask` or chat completions, or of
    the MCP tool `assistant`. The store, or a bundle of `rag export`, must hold the answer's
    release. A bundle needs no corpus file. The command uses no model and no network. If words are
    altered, a document is missing or the release differs, the command prints the reason and exits
    with code 3. The text of the answer itself is not proved.

    \b
    Examples:
      rag verify answer.json contracts
      rag verify answer.json --bundle contracts.zip
    """
    from rag_pipeline.release.proof import prove, read_answer

    if bundle and (corpus or named):
        raise InputError(f"{bundle} holds its own corpus; name a corpus or a bundle, not both")
    kept = read_answer(answer)
    held = prove(kept, bundle or open_corpus(corpus, named).workspace)
    proved = [one.number for one in kept.sources if one.corpus == held.corpus]
    others = sorted({one.corpus for one in kept.sources} - {held.corpus})
    release = held.release.release_id
    if as_json:
        print_json({"release": release, "proved": proved, "other_corpora": others})
        return
    say(f"{counted(len(proved), 'source')} found in {release} as cited")
    if others:
        say(f"sources of other corpora, not proved here: {', '.join(others)}")


@app.command(short_help="Improve the prompts of the assistant's model.")
def optimize(
    corpus: CorpusArgument = None,
    named: CorpusOption = None,
    metric: Annotated[str, option("NAME", "EntityF1 or AnswerPresence.")] = "EntityF1",
    trials: Annotated[int, option("N", "How many sets of examples to try.")] = 3,
    seed: Annotated[int, option("N", "Seed of the choice of queries and examples.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Add good examples to the prompts of the assistant's model, and keep the best prompts.

    The corpus file must set `assistant.chat`. A third of the queries gives examples. Another third
    selects the best trial. The new prompts are adopted if they are not worse than the current
    prompts on the last third. Each result is a numbered file in the store.

    \b
    Examples:
      rag optimize
      rag optimize contracts --metric AnswerPresence --trials 5
    """
    from rag_pipeline.assistant import sentence_vectors
    from rag_pipeline.assistant.language_model import require_dspy

    require_dspy()
    from rag_pipeline.assistant.optimization import optimize_prompts

    opened = open_corpus(corpus, named)
    spent = opened.workspace.ledger.spent()
    progress = (lambda what: None) if as_json else lambda what: console.print(f"{what} …")
    made = optimize_prompts(opened, sentence_vectors, metric, trials, seed, progress)
    if as_json:
        print_json(made.model_dump())
        return
    scores = (made.score_before, made.score_after)
    before, after = ("not measured" if s is None else f"{100 * s:.1f}" for s in scores)
    verdict = "adopted" if made.adopted else "not adopted; the prompts in use stay"
    say(
        f"prompts {made.number} ({made.model}): {made.metric} {before} before, "
        f"{after} after on {counted(made.validated, 'query')}: {verdict}"
    )
    console.print(f"cost: {opened.workspace.ledger.spent() - spent:.4f} USD")


@app.command(short_help="Serve the release to assistants, by MCP and HTTP.")
def serve(
    corpora: Annotated[
        list[str] | None, argument("CORPUS...", "The corpora to serve.", autocompletion=names)
    ] = None,
    named: Annotated[
        list[str] | None,
        option("CORPUS", "The same as CORPUS.", "--corpus", "-c", autocompletion=names),
    ] = None,
    transport: Annotated[str, option("http|stdio", "How clients connect.")] = "http",
    host: Annotated[str, option("HOST", "Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, option("PORT", "Port to listen on.", min=1, max=65535)] = 9003,
    token_env: Annotated[str, option("NAME", "Variable with the bearer token.")] = "RAG_TOKEN",
    allow_host: Annotated[
        list[str] | None, option("HOST[:PORT]", "Backend that requests may name by header.")
    ] = None,
    callers: Annotated[Path | None, option("FILE", "File with the labels of each token.")] = None,
    labels: Annotated[str, option("LABELS", "Labels of other callers, * for all.", "--as")] = "",
    log_questions: Annotated[Path | None, option("FILE", "Append questions to this file.")] = None,
    feedback: Annotated[Path | None, option("FILE", "File for the judgements of answers.")] = None,
    review: Annotated[bool, flag("--review", "Serve /review for synthetic questions.")] = False,
    drain: Annotated[int, option("SECONDS", "Time to keep answering after SIGTERM.", min=0)] = 0,
    workers: Annotated[int, option("N", "Processes on one port, with shared rates.", min=1)] = 1,
    memory: Annotated[int, option("MB", "Memory per process; 0: half of all.", min=0)] = 0,
    verify: Annotated[bool, flag("--verify", "Check a release's hashes before serving.")] = False,
) -> None:
    """Serve releases to assistants: MCP tools, a web page, and a Dify knowledge base.

    The server opens a newer release without a restart. It needs a bearer token in the environment
    variable RAG_TOKEN, unless it listens on a loopback address.

    \b
    Examples:
      rag serve contracts
      rag serve contracts policies --port 9003
      rag serve contracts --transport stdio
      rag serve contracts --workers 2
      rag serve contracts --log-questions asked.jsonl --review
      RAG_TOKEN=... rag serve contracts --host 0.0.0.0
      rag serve contracts --host 0.0.0.0 --callers callers.yaml
    """
    from rag_pipeline.config.access import read_caller
    from rag_pipeline.serving.settings import ServerSettings, check_address, read_token

    if transport not in ("http", "stdio"):
        raise InputError(f"--transport {transport!r} is not one of: http, stdio")
    settings = ServerSettings(
        host,
        port,
        read_token(token_env, host, callers),
        tuple(allow_host or ()),
        workers=workers,
        memory_bytes=memory * 1_000_000,
        log_questions=log_questions,
        feedback=feedback,
        review=review,
        drain_seconds=drain,
        callers=callers,
        caller=read_caller(labels),
    )
    if transport == "http":
        check_address(settings)  # before the seconds of opening
    opened = [open_corpus(name) for name in (*(corpora or ()), *(named or ()))] or [open_corpus()]
    for one in opened:
        one.verify = verify
    import_extra("fastmcp", "fastmcp", "serve")
    named_corpora = ", ".join(one.name for one in opened)
    errors.print(f"opening {named_corpora}: the release, its indexes and models …", markup=False)
    from rag_pipeline.serving.server import serve_http, serve_stdio

    (serve_stdio if transport == "stdio" else serve_http)(opened, settings)
