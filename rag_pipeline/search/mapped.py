"""Keep the vectors and rows of an open index in files that several processes map into memory."""

import fcntl
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from rag_pipeline.datamodels import Vectors


@dataclass(frozen=True, slots=True)
class MappedFolder:
    """A folder of files that several processes map into memory and share.

    The first process writes a file while the others wait.
    """

    path: Path

    def vectors(self, name: str, vectors: Vectors) -> Vectors:
        """Return `vectors`, mapped from the file of this name. Write the file if there is none."""
        file = self.path / f"{name}.npy"
        with self._alone(name):
            if not file.exists():
                _write(file, lambda out: np.save(out, vectors))
            mapped: Vectors = np.load(file, mmap_mode="r")
        # A slice of a plain array takes less time than a slice of a `memmap`.
        return mapped.view(np.ndarray)

    def rows(self, name: str, make: Callable[[], pa.Table | None]) -> pa.Table | None:
        """Return the table of this name, mapped from its file.

        If there is no file, write the table that `make` returns. Return None if `make` returns
        None.
        """
        file = self.path / f"{name}.arrow"
        with self._alone(name):
            if not file.exists():
                made = make()
                if made is None:
                    return None
                _write(file, lambda out: _save_rows(out, made))
            with pa.memory_map(str(file)) as source:
                return pa.ipc.open_file(source).read_all()

    def keep_only(self, names: Collection[str]) -> None:
        """Delete the files of all other names. Processes that map a deleted file still read it."""
        for file in self.path.iterdir():
            if file.suffix in (".npy", ".arrow") and file.stem not in names:
                with self._alone(file.stem):
                    file.unlink(missing_ok=True)

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _write(file: Path, save: Callable[[BinaryIO], None]) -> None:
    new = file.with_suffix(".new")
    with new.open("wb") as out:
        save(out)
    new.replace(file)


def _save_rows(out: BinaryIO, rows: pa.Table) -> None:
    with pa.ipc.new_file(out, rows.schema) as sink:
        sink.write_table(rows)
