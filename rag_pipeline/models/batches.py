"""Ask a chat model through a provider's Batch API, and pay for each reply once.

Before a run submits prompts, it notes their keys under a token. The metadata of the batch has the
token, so the next run finds the batch of a killed run. A run also waits for the batches of other
runs.
"""

import hashlib
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rag_pipeline.calls import Asking, CallCache, Claims, Database, costs, redacted, sql
from rag_pipeline.calls.database import parts
from rag_pipeline.calls.grouping import groups
from rag_pipeline.config import ChatSettings, RemoteModel
from rag_pipeline.datamodels import Prompt, Reply
from rag_pipeline.errors import CallsStoppedError, ProviderError, TransientError
from rag_pipeline.models.providers.openai import OpenAIChat
from rag_pipeline.models.replies import first_key, is_cut, pack, read_reply

if TYPE_CHECKING:
    from rag_pipeline.models.providers.openai_batch import Batch, OpenAIBatches

_MOST_REQUESTS = 50_000
_MOST_BYTES = 190_000_000
"""Maximum size of a file in bytes. The API accepts 50,000 requests and 200 MB."""
_MOST_SUBMISSIONS = 3
_REFUSED_ALONE = 3
_SUBMITTING = b"submitting a batch"
"""A process claims this key while it submits batches."""
_LOCK_POLL_SECONDS = 0.2


def ask_in_batches(prompts: Mapping[bytes, Prompt], settings: ChatSettings, asking: Asking) -> None:
    """Send the missing prompts of `asking` through the provider's Batch API.

    Prompts with cut or invalid replies, and prompts that failed in earlier runs or are refused in a
    batch of their own, stay missing. Raise CallsStoppedError if there is no Batch API, or if the
    API refuses every batch. Raise BudgetError if the expected cost exceeds the budget.
    """
    chat = settings.open()
    if not isinstance(chat, OpenAIChat):
        raise CallsStoppedError(f"{chat.identity}: no Batch API; remove `batch`")
    client = chat.batches()
    batches = _Batches(prompts, settings, chat, client, BatchNotes(asking.cache), asking)
    try:
        batches.invalid.extend(failed := asking.cache.failures(asking.missing))
        asking.failed.update(batches.run([key for key in asking.missing if key not in failed]))
    except BaseException:
        # The batch may continue, and its end settles the cost.
        costs.keep_reservations([_reservation(key) for key in asking.missing])
        raise
    finally:
        client.close()
    asking.missing = batches.invalid


@dataclass(slots=True)
class _Batches:
    prompts: Mapping[bytes, Prompt]
    settings: ChatSettings
    chat: OpenAIChat
    client: "OpenAIBatches"
    notes: "BatchNotes"
    asking: Asking
    invalid: list[bytes] = field(default_factory=list)
    """Prompts for single calls."""
    widths: dict[bytes, int] = field(default_factory=dict)
    """Maximum size of the next batch, for the prompts of refused batches."""
    refused: int = 0
    """Number of prompts in a row that are refused in a batch of their own."""

    def run(self, keys: Sequence[bytes]) -> dict[bytes, ProviderError]:
        """Submit prompts that are in no batch yet, wait, and keep every answer.

        Submit a prompt again, at most three times in all, if its request expired, has no answer or
        has a transient error. Return the failed prompts with their errors. A refused batch is
        halved, and the halves are submitted one after the other.
        """
        failed: dict[bytes, ProviderError] = {}
        submissions = dict.fromkeys(keys, 0)
        reasons: dict[bytes, ProviderError] = {}
        round_number = 0
        while waiting := [k for k in submissions if submissions[k] < _MOST_SUBMISSIONS]:
            round_number += 1
            if halved := [key for key in waiting if key in self.widths]:
                least = min(self.widths[key] for key in halved)
                waiting = [key for key in halved if self.widths[key] == least][:least]
            for token, (batch, own, is_new) in self._submitted(waiting, round_number).items():
                while not batch.ended:
                    is_new = True  # no other run has seen the end of this batch
                    time.sleep(self.settings.batch_poll_seconds)
                    batch = self.client.get(batch.batch_id) or replace(batch, status="cancelled")
                if batch.status == "failed":
                    self._release(token, self.notes.keys(token), own)
                    self._halve(batch, own)
                    for key in own.intersection(self.invalid):
                        del submissions[key]
                    continue
                self.refused = 0
                refused, again = self._collect(batch, own)
                failed |= refused
                reasons |= again
                self._release(token, own, own)
                for key in own:
                    submissions[key] += is_new
                    if key not in again:
                        del submissions[key]
        return failed | {key: reasons[key] for key in submissions}

    def _halve(self, batch: "Batch", own: set[bytes]) -> None:
        """Halve a refused batch. If it has one prompt, leave the prompt to a single call.

        Raise CallsStoppedError after three such prompts in a row.
        """
        self.widths |= dict.fromkeys(own, (len(own) + 1) // 2)
        if len(own) == 1:
            self.invalid.extend(own)
            self.refused += 1
        if self.refused >= _REFUSED_ALONE:
            reason = "; ".join(batch.errors) or "no reason given"
            raise CallsStoppedError(f"batch {batch.batch_id} was refused: {reason}")

    def _release(self, token: str, noted: Collection[bytes], own: Collection[bytes]) -> None:
        """Forget the `noted` prompts of an ended batch, and cancel the reservations of `own`."""
        self.notes.release(token, noted)
        costs.cancel_reservations([_reservation(key) for key in own])

    def _collect(
        self, batch: "Batch", own: set[bytes]
    ) -> tuple[dict[bytes, ProviderError], dict[bytes, ProviderError]]:
        """Keep an ended batch's answers. Return the errors of refused and of repeatable prompts."""
        refused: dict[bytes, ProviderError] = {}
        again = dict.fromkeys(own, ProviderError(f"batch {batch.batch_id} ended without an answer"))
        for line in self.client.answers(batch):
            key = _key_of(line)
            if key is None or key not in again:
                continue  # a line of another run, or a repeated line
            try:
                self._accept(key, line, batch.batch_id)
            except ProviderError as error:
                error.remove_echo([m["content"] for m in self.prompts[key].messages])
                if isinstance(error, TransientError):
                    again[key] = error
                    continue
                refused[key] = error
            del again[key]
        return refused, again

    def _accept(self, key: bytes, line: dict[str, Any], batch_id: str) -> None:
        """Keep a reply, or mark its prompt as invalid. Raise ProviderError without a reply."""
        response = _mapping(line, "response")
        body, status = _mapping(response, "body"), response.get("status_code")
        status = status if isinstance(status, int) else 0
        if status != 200:
            fault = _mapping(line, "error") or _mapping(body, "error")
            reason = fault.get("message") or fault.get("code") or "failed"
            said = f"batch {batch_id}: {redacted(str(reason))}" + (
                f" (HTTP {status})" if status else ""
            )
            is_transient = status in (0, 408, 409, 429) or status >= 500
            raise TransientError(said) if is_transient else ProviderError(said)
        prompt = self.prompts[key]
        texts = costs.request_texts(prompt.messages, prompt.schema)
        with costs.requesting(texts, _reservation(key), self._tokens(key)[1]):
            completion = self.chat.read_batched(body, f"{batch_id}:{line['custom_id']}")
        try:
            if is_cut(completion, prompt):
                raise ValueError(completion.cut)
            data = read_reply(completion.text, prompt)
        except ValueError:
            self.asking.cache.put({first_key(key): pack(completion)})  # its repair begins here
            self.invalid.append(key)
            return
        self.asking.keep({key: pack(Reply(completion.text, data, completion.usage))})

    def _submitted(
        self, keys: Sequence[bytes], round_number: int
    ) -> dict[str, tuple["Batch", set[bytes], bool]]:
        """Submit the prompts that are in no batch.

        Return for each token its batch, the batch's keys of this run, and whether it is new.
        """
        found_batches: dict[str, tuple[Batch, set[bytes], bool]] = {}
        notes, client = self.notes, self.client
        # One process submits at a time, so a note without a batch comes from a killed process.
        with notes.locked():
            noted = notes.tokens(keys)
            new = [key for key in keys if key not in noted]
            if new:
                # This run waits for the noted batches, whose ends may free budget.
                new = self._admitted(new, wait=not noted)
            sizes = (len(self._line(key).encode()) + 1 for key in new)
            for positions in groups(sizes, _MOST_REQUESTS, _MOST_BYTES):
                part = [new[position] for position in positions]
                notes.add(_token(part, round_number), part)
            placed = notes.tokens(keys)
            for token, batch_id in dict.fromkeys(placed.values()):
                found = client.get(batch_id) if batch_id is not None else client.find(token)
                is_new = found is None
                if found is None:
                    # This run lacks the texts of the other noted prompts.
                    notes.release(token, set(notes.keys(token)).difference(keys))
                    submitted = notes.keys(token)
                    costs.sent(len(submitted))
                    found = client.submit(map(self._line, submitted), token)
                notes.submitted(token, found.batch_id)
                own = {key for key in placed if placed[key][0] == token}
                found_batches[token] = found, own, is_new
        return found_batches

    def _line(self, key: bytes) -> str:
        prompt = self.prompts[key]
        return self.chat.batch_line(key.hex(), prompt.messages, prompt.schema)

    def _tokens(self, key: bytes) -> tuple[costs.ChargedTokens, costs.ChargedTokens]:
        prompt, room = self.prompts[key], self.settings.max_output_tokens
        return costs.request_tokens(prompt.messages, prompt.schema, room)

    def _admitted(self, keys: Sequence[bytes], wait: bool) -> list[bytes]:
        """Return the first prompts that fit the budget together. If `wait`, wait for one to fit."""
        settings, wanted = self.settings, {_reservation(key): self._tokens(key) for key in keys}
        address = settings.base_url if isinstance(settings, RemoteModel) else None
        model = settings.provider, settings.model
        fitting = set(costs.reserve_batch(*model, wanted, address, wait=wait))
        return [key for key in keys if _reservation(key) in fitting]


def _reservation(key: bytes) -> str:
    return f"batched {key.hex()}"


def _key_of(line: Any) -> bytes | None:
    try:
        return bytes.fromhex(line["custom_id"])
    except (ValueError, TypeError, KeyError):
        return None


def _mapping(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = found.get(name)
    return value if isinstance(value, dict) else {}


def _token(keys: Sequence[bytes], round_number: int) -> str:
    """Return a token from the keys and the round. Other machines make the same token."""
    digest = hashlib.sha256(b"".join(sorted(keys)))
    return f"{digest.hexdigest()[:32]}-{round_number}"


@dataclass(frozen=True, slots=True)
class BatchNotes:
    """Notes of the batch of each request, in the database of the call cache."""

    cache: CallCache

    @property
    def _database(self) -> Database:
        return self.cache.database

    def tokens(self, keys: Sequence[bytes]) -> dict[bytes, tuple[str, str | None]]:
        """Return the token and batch id of each noted key. Before submission, the id is None."""
        query = sql.select(sql.requests, sql.batches.c.batch_id).join_from(
            sql.requests, sql.batches, sql.requests.c.token == sql.batches.c.token
        )
        rows = self._database.read_keys(query, sql.requests.c.key, keys)
        return {row.key: (row.token, row.batch_id) for row in rows}

    def keys(self, token: str) -> list[bytes]:
        """Return the keys of the requests that are noted under a token."""
        query = sql.select(sql.requests.c.key).where(sql.requests.c.token == token)
        return [row.key for row in self._database.read(query)]

    def add(self, token: str, keys: Sequence[bytes]) -> None:
        """Note requests before they are submitted."""
        rows = [{"key": key, "token": token} for key in keys]

        def work(connection: "sql.Connection") -> None:
            batch = self._database.upsert(sql.batches, "batch_id")
            connection.execute(batch, {"token": token, "batch_id": None})
            connection.execute(self._database.upsert(sql.requests, "token"), rows)

        self._database.write(work)

    def submitted(self, token: str, batch_id: str) -> None:
        """Note the id of the batch with a token."""
        noted = (
            sql.update(sql.batches).where(sql.batches.c.token == token).values(batch_id=batch_id)
        )
        self._database.write(lambda connection: connection.execute(noted))

    def release(self, token: str, keys: Collection[bytes]) -> None:
        """Forget these requests of a token, and all batches without requests."""
        empty = sql.delete(sql.batches).where(
            sql.batches.c.token.not_in(sql.select(sql.requests.c.token))
        )

        def work(connection: "sql.Connection") -> None:
            for part in parts(list(keys)):
                own = sql.requests.c.token == token, sql.requests.c.key.in_(part)
                connection.execute(sql.delete(sql.requests).where(*own))
            connection.execute(empty)

        self._database.write(work)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let one process at a time run the block. A killed process loses the lock."""
        with Claims(self.cache) as claims:
            while not claims.take([_SUBMITTING]):
                time.sleep(_LOCK_POLL_SECONDS)
            yield
