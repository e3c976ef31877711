"""Files are written whole, and as readable to others as the umask lets them be."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from rag_pipeline.errors import ConfigError
from rag_pipeline.pipeline.template import write_file
from rag_pipeline.store import Store
from rag_pipeline.store.whole import replace_text
from rag_pipeline_tests.testing.disks import mount


@pytest.mark.parametrize(
    ("umask", "file", "folder"), [(0o022, 0o644, 0o755), (0o077, 0o600, 0o700)]
)
def test_a_server_of_another_user_reads_what_a_run_built(tmp_path, umask, file, folder):
    before = os.umask(umask)
    try:
        store = Store(str(tmp_path / "store"), "tiny")
        store.write_json("a.json", 1)
        store.write_json_if("b.json", 1, None)
        built = store.files.new_folder("lexical/x")
        (built / "index").write_text("index")
        store.publish_folder(built, "lexical/x")
        with store.files.try_lock("run.lease", {}) as _:
            pass
    finally:
        os.umask(before)
    for path in (tmp_path / "store").rglob("*"):
        wanted = folder if path.is_dir() else file
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_a_file_that_has_no_room_stays_as_it_was(tmp_path):
    mount("-t", "tmpfs", "-o", "size=16k", "tmpfs", tmp_path)
    try:
        (tmp_path / "c.yaml").write_text("written by hand")
        (tmp_path / "filler").write_bytes(bytes(4096))
        with pytest.raises(
            ConfigError, match=r"--output .*c\.yaml: cannot write it: No space left"
        ):
            write_file("--output", tmp_path / "c.yaml", "x" * 20_000)
        assert (tmp_path / "c.yaml").read_text() == "written by hand"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["c.yaml", "filler"]
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)


def test_what_is_no_regular_file_is_written_to():
    reader, writer = os.pipe()
    replace_text(Path(f"/proc/self/fd/{writer}"), "text")
    os.close(writer)
    with os.fdopen(reader) as pipe:
        assert pipe.read() == "text"
