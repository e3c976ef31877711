"""Let a running server of the same user and corpus answer `rag search` and `rag ask`.

The server listens on a Unix socket in a folder that only its user can open. The socket's name has
two hashes. The first hash is of the corpus file's path, the working directory and the version of
this package. The second hash is of the file's content. A command computes the same name.
"""

import asyncio
import hashlib
import http.client
import json
import os
import re
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
    from starlette.types import Scope

    from rag_pipeline.assistant import AssistedAnswer
    from rag_pipeline.client.records import Answer, Passage
    from rag_pipeline.corpus import Corpus
    from rag_pipeline.datamodels import ScoredChunk
    from rag_pipeline.loading.places import Place

    Places = Callable[[Sequence[ScoredChunk]], list[Place | None]]

NEAREST = 3
"""Number of passages that are shown without an answer."""
_EXCERPT = 300
_ALIVE_SECONDS = 1.0
"""Maximum seconds for a server's reply to `/live`. A slower server gets no request."""
_REPLY_SECONDS = 65.0
_WORD = re.compile(r"\w+")


def search(corpus: "Corpus", query: str, k: int, where: str | None, labels: str | None) -> Any:
    """Return the chunks and places of a search, and sentences about what was not searched.

    A sentence about files names them, so only callers who may see all documents get it.
    """
    from rag_pipeline.config.access import read_caller
    from rag_pipeline.search.unsearched import not_searched

    caller = read_caller(labels)
    chunks = corpus.search(query, k=k, where=where, caller=caller)
    passages = with_excerpts(chunks, query, corpus.places)
    found = [passage.model_dump(mode="json", exclude={"corpus"}) for passage in passages]
    sees_all = corpus.labels(caller) is None
    unread = not_searched(corpus.workspace, query, bool(chunks)) if sees_all else []
    unread += filter(None, [corpus.searched_with_note()[1]])
    return {"chunks": found, "unread": unread}


def ask(corpus: "Corpus", question: str, labels: str | None, **options: Any) -> Any:
    """Return an answer in the form of `rag ask --json`."""
    from rag_pipeline.config.access import read_caller

    made = corpus.ask(question, caller=read_caller(labels), **options)
    return answer_record(made, corpus.places).model_dump(mode="json")


def answer_record(made: "AssistedAnswer", places: "Places") -> "Answer":
    """Return an answer's record. Without an answer, the nearest passages have their excerpts."""
    from rag_pipeline.client.records import Answer

    answer = Answer.model_validate(made)
    if made.answered:
        return answer
    nearest = with_excerpts(made.passages[:NEAREST], made.query, places)
    return answer.model_copy(update={"passages": (*nearest, *answer.passages[NEAREST:])})


def with_excerpts(chunks: "Sequence[ScoredChunk]", query: str, places: "Places") -> "list[Passage]":
    """Return chunks as passages with their places and excerpts."""
    from rag_pipeline.client.records import Excerpt, Passage
    from rag_pipeline.search.excerpt import excerpt

    cut = [(chunk, chunk.start, excerpt(chunk.text, query, _EXCERPT)) for chunk in chunks]
    parts = [replace(c, text=e.text, start=at + e.start, end=at + e.end) for c, at, e in cut]
    placed = places([*chunks, *parts])  # reads each document once
    pairs = zip(parts, placed[len(chunks) :], strict=True)
    excerpts = (Excerpt(text=p.text, start=p.start, end=p.end, place=at) for p, at in pairs)
    found = zip(chunks, placed[: len(chunks)], excerpts, strict=True)
    return [
        Passage.model_validate(chunk).model_copy(update={"place": at and at.record(), "excerpt": e})
        for chunk, at, e in found
    ]


WORK: Mapping[str, Callable[..., Any]] = {"search": search, "ask": ask}


def ask_server(file: Path, work: str, asked: Mapping[str, Any]) -> Any:
    """Return a running server's reply to a request, or None if no server answers."""
    body = json.dumps({"file": str(file.resolve()), **asked})
    try:
        with closing(_Connection(socket_path(file))) as connection:
            connection.request("GET", "/live")
            connection.getresponse().read()
            connection.sock.settimeout(_REPLY_SECONDS)
            connection.request("POST", f"/local/{work}", body)
            reply = connection.getresponse()
            return json.load(reply) if reply.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError):
        return None


def serves_earlier_file(file: Path) -> bool:
    """Return whether all servers of a corpus file opened the file before its last change.

    A change of an environment variable in the file counts as a change of the file.
    """
    try:
        path = socket_path(file)
        others = list(path.parent.glob(f"{path.name.partition('-')[0]}-*.sock"))
        return path not in others and any(map(_is_alive, others))
    except OSError:
        return False


def _is_alive(path: Path) -> bool:
    with suppress(OSError, http.client.HTTPException), closing(_Connection(path)) as connection:
        connection.request("GET", "/live")
        return connection.getresponse().status == 200
    return False


def answering(corpora: Sequence["Corpus"]) -> "Route":
    """Return the route of `ask_server`. A request over the network gets status 404."""
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from rag_pipeline.serving.v1.endpoints import clear

    async def answer(request: "Request") -> "Response":
        work = WORK.get(request.path_params["work"]) if is_local(request.scope) else None
        if work is None:
            return JSONResponse({"error": "Not Found"}, 404)
        asked = await request.json()
        file = asked.pop("file")
        corpus = next(one for one in corpora if str(one.config.file) == file)

        def respond() -> "Response":
            corpus.reopen()  # a command must see a new release immediately
            return JSONResponse(work(corpus, **asked))

        return await asyncio.to_thread(respond)

    return Route("/local/{work}", clear(answer), methods=["POST"])


def is_local(scope: "Scope") -> bool:
    """Return whether a request came through a Unix socket. Only such a request has no port."""
    return (scope.get("server") or ("", 0))[1] is None


@contextmanager
def listening_to_user(corpora: Sequence["Corpus"]) -> Iterator[list[socket.socket]]:
    """Bind a socket for each corpus file. A corpus whose socket cannot be bound gets none."""
    made: dict[Path, socket.socket] = {}
    for corpus in corpora:
        with suppress(OSError):
            if corpus.config.file is not None:
                path = socket_path(corpus.config.file)
                path.unlink(missing_ok=True)  # a killed server leaves its socket
                made[path] = socket.socket(socket.AF_UNIX)
                made[path].bind(str(path))
    try:
        yield list(made.values())
    finally:
        for path, one in made.items():
            one.close()
            path.unlink(missing_ok=True)


def socket_path(file: Path) -> Path:
    """Return the path of the socket for the current content of a corpus file.

    The path also depends on the values of the environment variables in the file. Raise OSError if
    the file cannot be read, or if another user owns or may open the sockets' folder.
    """
    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    folder /= f"rag-{os.getuid()}"
    folder.mkdir(0o700, exist_ok=True)
    known = folder.lstat()
    if not stat.S_ISDIR(known.st_mode) or known.st_uid != os.getuid() or known.st_mode & 0o077:
        raise PermissionError(f"{folder}: other users may open this folder")
    text = file.read_text(encoding="utf-8", errors="replace")
    values = [os.environ.get(name) for name in _WORD.findall(text) if name in os.environ]
    place = [version("rag_pipeline"), __file__, str(Path.cwd()), str(file.resolve())]
    return folder / f"{_hash(place)}-{_hash([text, values])}.sock"


def _hash(identity: list[Any]) -> str:
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:20]


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_ALIVE_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
