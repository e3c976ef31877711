"""Implement `rag questions make` and `review`, which make synthetic questions and review them."""

import sys
import time
from collections import Counter
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

import typer
from rich.console import Console
from rich.markup import escape

from rag_pipeline.calls.costs import ChargedTokens, attributed
from rag_pipeline.calls.progress import listening
from rag_pipeline.cli.console import (
    command,
    console,
    counted,
    counting,
    errors,
    indented,
    print_json,
    say,
    show_next,
    tell,
    visible,
)
from rag_pipeline.cli.find import rag, shown_path
from rag_pipeline.config import load_config
from rag_pipeline.datamodels import Document
from rag_pipeline.errors import InputError, ProviderError
from rag_pipeline.evaluation.runs import why_left_out
from rag_pipeline.indexing import (
    plan_documents,
    read_documents,
    refused_documents,
    update_documents,
)
from rag_pipeline.models.chat import expected_tokens
from rag_pipeline.pipeline.dry_run.priced_models import price, priced_model
from rag_pipeline.questions import files, review
from rag_pipeline.questions.generation import MadeQuestions, make_questions, reasons_not_in_force
from rag_pipeline.questions.written import prompts_of, write_questions
from rag_pipeline.search.excerpt import excerpt
from rag_pipeline.store.lease import lease
from rag_pipeline.workspace import Workspace

_SHOWN = 5
_PLAIN = {
    "ambiguous": "another passage answers, too",
    "unanswerable": "a search does not find the passage",
    "leaks the title": "the document's title tells the answer",
    "the question contains its answer": "the question tells the answer",
    "asked already": "a question like it is asked already",
    "no wording": "the rules cannot turn the sentence into a question",
    "not in force": "a newer document replaces it",
    "a draft": "it is a draft",
    "a copy of another": "it is a copy of another document",
    "no fact that the rules read": "the rules find no fact in it",
    "no question passed": "no fact in it became a question",
    "another language": "the rules read prose in English and German only",
}
"""Words for the reasons why a fact or a document has no question."""
RULES = "none"
_KEYS = "[a]ccept, [r]eject, [e]dit, [s]kip, [q]uit"


class Wanted(NamedTuple):
    """The numbers of wanted questions: of one passage, of two documents, and unanswerable."""

    number: int
    several: int = 0
    unanswerable: int = 0


def make_and_write(
    file: Path,
    wanted: Wanted,
    add: bool,
    output: Path | None,
    as_json: bool,
    chat: str | None = None,
    plan: bool = False,
    is_last: bool = True,
) -> None:
    """Make questions, write them to the corpus's queries file, and print the next commands.

    Without `is_last`, the caller prints more, so omit the next commands.
    """
    config = load_config(file)
    target = output.expanduser() if output else files.queries_file(config)
    human, synthetic = files.counts(files.read_questions(target))
    if human and not add and output is None:
        raise InputError(
            f"{target}: holds {counted(human, 'question')} that people asked; add synthetic ones "
            f"with --add (every figure then says how many are synthetic), or write elsewhere: "
            f"--output"
        )
    workspace = Workspace(config)
    started = time.perf_counter()
    # A chat model of the corpus file words the questions, unless the user wants rules.
    chat = None if chat == RULES else chat or next(iter(config.chats), None)
    if plan:
        if chat is None:
            console.print("Rules make the questions: no call, no cost. --chat names a model.")
            return
        estimate, line = _cost(workspace, load_documents(workspace), wanted, chat)
        print_json(estimate) if as_json else console.print(line)
        return
    documents = load_documents(workspace)
    spent = workspace.ledger.spent()
    made = _make(workspace, documents, wanted, chat, errors if as_json else console)
    if not made.rows:
        told = ", ".join(f"{n} {reason}" for reason, n in made.refused.most_common())
        facts = f"the rules found {counted(made.facts, 'fact')} in {len(documents)} documents"
        read = " (they read English and German)" * bool(made.left_out["another language"])
        why = f"no question passed; {facts}{read}. Write some yourself"
        if chat is not None:
            why = f"no question of {chat} passed: {told or 'none written'}"
        raise InputError(f"{config.corpus}: {why}")
    replaced = files.without_synthetic(target) if synthetic else 0
    texts = {document.document_id: document.text for document in documents}
    added = files.add(target, [files.with_quotes(row, texts.__getitem__) for row in made.rows])
    if config.queries is None and output is None:
        files.name_in_corpus_file(file, target)
    seconds = time.perf_counter() - started
    usd = workspace.ledger.spent() - spent
    if as_json:
        record = {"file": str(target), "questions": added, "replaced": replaced}
        record |= {"facts": made.facts, "refused": dict(made.refused)}
        print_json({**record, "seconds": round(seconds, 1), "usd": round(usd, 6)})
        return
    documents_asked = {span["document_id"] for row in made.rows for span in row["gold_spans"]}
    tell(
        f"wrote {counted(added, 'synthetic question')} about "
        f"{counted(len(documents_asked), 'document')} to "
        f"{escape(shown_path(target))}{f', replacing {replaced}' * bool(replaced)}; {seconds:.1f} s"
    )
    if unread := refused_documents(workspace):
        tell(f"{counted(len(unread), 'document')} in quarantine: no question is about them")
    if len(made.rows) < sum(wanted):
        _explain_few(made, documents, chat)
    for row in made.rows[:_SHOWN]:
        say(f"  {visible(row['query'])}")
    if chat is not None:
        console.print(f"cost: {usd:.4f} USD")
    if is_last:
        look = rag("questions", "review", file=file, corpus=config.corpus)
        say(f"To review them: {command(look)}")
        show_next(rag("run", file=file, corpus=config.corpus))


def drop_lost(file: Path) -> None:
    """Move the questions whose gold text the documents no longer hold out of the queries file.

    Questions about documents in quarantine stay, because a repair brings their gold text back.
    """
    config = load_config(file)
    workspace = Workspace(config)
    refused = workspace.quarantine("documents").state().keys()
    target = files.queries_file(config)
    lost = [
        record.query_id
        for record in files.read_questions(target)
        if why_left_out(workspace, record.query_id)
        and refused.isdisjoint(span.document_id for span in record.gold_spans)
    ]
    if not lost:
        console.print("the documents hold the gold text of every question; nothing was dropped")
        return
    kept = shown_path(files.move(target, lost, files.DROPPED))
    say(f"dropped {counted(len(lost), 'question')}; {escape(kept)} keeps them")
    show_next(rag("run", file=file, corpus=config.corpus))


def _explain_few(made: MadeQuestions, documents: Sequence[Document], chat: str | None) -> None:
    """Print the reasons for fewer questions than wanted, and the ways to more questions."""
    source = f"{counted(made.facts, 'fact')} found"
    if chat is not None:
        source = f"{counted(made.facts, 'prompt')} of {escape(chat)} sent"
    read = f"{counted(len(documents), 'document')} read"
    aside = sorted(reasons_not_in_force(documents).items())
    for tried, reasons in ((read, made.left_out), (source, made.refused)):
        tell(f"{tried}{'; no question came of these:' if reasons else ''}")
        for why, number in reasons.most_common():
            named = ", ".join([d for d, reason in aside if reason == why][:_SHOWN])
            which = f" ({visible(named)})" * bool(named)
            tell(indented(f"{number:,}: {_PLAIN.get(why) or visible(why)}{which}", "  "))
    model = ", or name a chat model: --chat" if chat is None else ""
    tell(f"To make more: write some, or import a server's log (rag questions import){model}")


def _make(
    workspace: Workspace,
    documents: Sequence[Document],
    wanted: Wanted,
    chat: str | None,
    told: Console,
) -> MadeQuestions:
    """Make the questions with the chat model. If no model is set or it fails, use rules."""
    lexical = workspace.config.lexical
    more = {"several": wanted.several, "unanswerable": wanted.unanswerable}
    making = f"making at most {sum(wanted)} questions from {counted(len(documents), 'document')}"
    if chat is not None:
        estimate, line = _cost(workspace, documents, wanted, chat)
        if estimate["prompts"]:
            told.print(line, markup=False)
        try:
            with counting(making, "questions") as progress, attributed("questions"):
                asked = workspace.ask(chat)
                return write_questions(documents, wanted.number, lexical, asked, progress, **more)
        except ProviderError as error:
            told.print(f"{chat} failed: {error}\nrules make the questions instead", markup=False)
    with counting(f"{making} by rules", "documents read and facts tried") as progress:
        return make_questions(documents, wanted.number, lexical, progress, **more)


def _cost(
    workspace: Workspace, documents: Sequence[Document], wanted: Wanted, chat: str
) -> tuple[dict[str, float | None], str]:
    """Return the estimated cost of a chat model's questions as a record and as a line."""
    settings = workspace.config.chat(chat)
    prompts = prompts_of(documents, *wanted)
    counts = (expected_tokens(prompt, settings, n == 0) for n, prompt in enumerate(prompts))
    tokens = sum(counts, ChargedTokens())
    usd = price(workspace, priced_model(workspace, settings), tokens)
    cost = "an unknown price" if usd is None else f"{usd:.4f} USD"
    return {"prompts": len(prompts), "input_tokens": tokens.input, "usd": usd}, (
        f"{chat}: {len(prompts)} prompts, about {tokens.input:,} input and {tokens.output:,} "
        f"output tokens: {cost}, minus cached calls"
    )


def load_documents(workspace: Workspace) -> list[Document]:
    """Load new and changed documents, and return all documents of the corpus."""
    with lease(workspace.store):
        plan = plan_documents(workspace)
        if not plan.is_current:
            total, done = len(plan.stale), count(1)
            reading = counting("reading the documents", "documents")
            with reading as tell, listening(lambda *_: tell(n := next(done), max(n, total))):
                tell(0, total)
                update_documents(workspace, plan)
    documents = list(read_documents(workspace, sorted(workspace.documents().state())))
    if not documents:
        raise InputError(f"{workspace.config.where}: there are no documents to make questions of")
    return documents


def review_questions(file: Path) -> None:
    """Print each undecided synthetic question, ask for a decision and apply it."""
    workspace = Workspace(load_config(file))
    total = len(review.waiting(workspace.config))
    if not total:
        console.print("no synthetic question is waiting for a review")
        return
    load_documents(workspace)
    shown: list[str] = []
    done: Counter[str] = Counter()
    while found := review.next_waiting(workspace, shown):
        shown.append(found.record.query_id)
        _show_question(found, f"{len(shown)}/{total}")
        decision = _decide(workspace, found)
        if decision is None:
            break
        done[decision] += 1
    console.print(f"{done['accepted']} accepted, {done['rejected']} rejected")
    if done["accepted"] or done["rejected"]:
        show_next(rag("run", file=file, corpus=workspace.config.corpus))


def _show_question(found: review.WaitingQuestion, place: str) -> None:
    record = found.record
    say(f"\n[bold]{place}[/bold]  {visible(record.query)}")
    if record.answer:
        say(f"answer: {visible(record.answer[:300])}")
    for span, text in found.gold:
        console.print(f"[cyan]{visible(span.document_id)}[/cyan]")
        say(indented(visible(excerpt(text, record.query, sys.maxsize).text)))


def _decide(workspace: Workspace, found: review.WaitingQuestion) -> str | None:
    """Ask for a decision on a question, apply it and return it. Return None if the user quits."""
    while True:
        words = found.record.query
        said = typer.prompt(_KEYS, default="s", show_default=False).strip().casefold()[:1]
        if said == "q":
            return None
        if said == "s":
            return "left"
        if said == "r":
            review.decide(workspace.config, found.record, "reject")
            return "rejected"
        if said == "e":
            words = typer.prompt("question", default=words).strip()
            wrong = review.problem_of_words(workspace, found, words)
            if wrong and not typer.confirm(f"{wrong}. Keep it?", default=False):
                continue
        if said in ("a", "e"):
            review.decide(workspace.config, found.record, "accept", words)
            return "accepted"
