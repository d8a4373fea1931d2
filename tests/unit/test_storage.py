"""Temporary files of visitors: folder, limit and removal."""

import os
import subprocess
import sys

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


def test_an_app_removes_files_of_killed_apps_but_not_of_running_ones(tmp_path):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    apps = [subprocess.Popen([sys.executable, "-c", APP, str(tmp_path)], **pipes) for _ in range(2)]
    try:
        left, used = (tmp_path / app.stdout.readline().strip() for app in apps)
        killed, living = apps
        killed.kill()
        killed.wait()
        (tmp_path / f"{PREFIX}of-somebody-else").mkdir()
        assert left.exists()
        storage = Storage(tmp_path)
        assert {*tmp_path.iterdir()} == {storage.root, used, tmp_path / f"{PREFIX}of-somebody-else"}
        living.communicate("")  # the app exits
        assert not used.exists()
        storage.close()
        assert not storage.root.exists()
    finally:
        for app in apps:
            app.kill()
            app.wait()


def test_a_link_in_the_folder_of_temporary_files_is_not_followed(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / LOCK).touch()
    (tmp_path / "temporary").mkdir()
    (tmp_path / "temporary" / f"{PREFIX}x").symlink_to(tmp_path / "precious")
    Storage(tmp_path / "temporary").close()
    assert (tmp_path / "precious" / LOCK).exists()


def test_all_files_count_and_a_forked_process_removes_none(tmp_path, monkeypatch):
    storage = Storage(tmp_path)
    for size in (1000, 1 << 20):
        (storage.folder() / "file").write_bytes(bytes(size))
    if not (child := os.fork()):
        storage.close()
        os._exit(0)
    os.waitpid(child, 0)
    used = storage.used()
    assert 0 <= used - 1000 - (1 << 20) < 1000
    monkeypatch.setenv("MARS_DEMO_DISK", "3")
    storage.require((3 << 20) - used)
    with pytest.raises(ValueError, match="3 MiB.* 2 MiB"):
        storage.require((3 << 20) - used + 1)
    storage.close()
