"""Temporary files of visitors: folder, limit and removal."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mars_demo.ui.hosting.storage import LOCK, PREFIX, Storage

APP = """
import sys
from pathlib import Path
from mars_demo.ui.hosting.storage import Storage
storage = Storage(Path(sys.argv[1]))
(storage.folder() / "weights").write_bytes(bytes(1000))
print(storage.root, flush=True)
sys.stdin.read()
"""


def app(parent: Path) -> tuple[subprocess.Popen, Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", APP, str(parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    return process, Path(process.stdout.readline().strip())


def test_an_app_removes_files_of_killed_apps_but_not_of_running_ones(tmp_path):
    killed, left = app(tmp_path)
    living, used = app(tmp_path)
    try:
        killed.kill()
        killed.wait()
        assert left.exists()
        other = tmp_path / f"{PREFIX}of-somebody-else"
        other.mkdir()
        storage = Storage(tmp_path)
        assert not left.exists()
        assert storage.root.exists() and used.exists() and other.exists()
        living.communicate("")  # the app exits
        assert not used.exists()
        storage.close()
        assert not storage.root.exists()
    finally:
        killed.kill()
        living.kill()
        living.wait()


def test_a_link_in_the_folder_of_temporary_files_is_not_followed(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / LOCK).touch()
    (tmp_path / "temporary").mkdir()
    (tmp_path / "temporary" / f"{PREFIX}x").symlink_to(tmp_path / "precious")
    Storage(tmp_path / "temporary").close()
    assert (tmp_path / "precious" / LOCK).exists()


def test_all_files_count(tmp_path, monkeypatch):
    storage = Storage(tmp_path)
    for size in (1000, 1 << 20):
        (storage.folder() / "file").write_bytes(bytes(size))
    used = storage.used()
    assert used - 1000 - (1 << 20) < 1000
    monkeypatch.setenv("MARS_DEMO_DISK", "3")
    storage.require((3 << 20) - used)
    with pytest.raises(ValueError, match="3 MiB.* 2 MiB"):
        storage.require((3 << 20) - used + 1)
    storage.close()


def test_a_forked_process_removes_nothing(tmp_path):
    storage = Storage(tmp_path)
    child = os.fork()
    if not child:
        storage.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert storage.root.exists()
    storage.close()
