"""The temporary files of visitors: one folder with their trained models and Gradio's downloads.

It is removed when the app exits, and what a killed app has left when the next one starts.
"""

import atexit
import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from mars_demo.limits import LIMITS

PREFIX, LOCK = "mars-demo-", "in-use"
GRADIO = "GRADIO_TEMP_DIR"  # where Gradio puts downloads


class Storage:
    """A folder in `parent`, with a lock file that is held while this process lives, so that another process
    can tell whether the folder was left behind.

    Raises:
        OSError: if there is no room for it.
    """

    def __init__(self, parent: Path):
        parent.mkdir(parents=True, exist_ok=True)
        for left in parent.glob(f"{PREFIX}*"):
            _remove_if_left(left)
        self.root = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        self._held = FileLock(self.root / LOCK)
        self._held.acquire()
        self._owner = os.getpid()
        atexit.register(self.close)

    @property
    def gradio(self) -> Path:
        return self.root / "gradio"

    def folder(self) -> Path:
        """Make a new folder."""
        return Path(tempfile.mkdtemp(dir=self.root))

    def used(self) -> int:
        """Return the bytes of all files."""
        total = 0
        for folder, _, files in os.walk(self.root):
            for file in files:
                with contextlib.suppress(OSError):  # it has just been removed
                    total += os.lstat(os.path.join(folder, file)).st_size
        return total

    def require(self, size: int) -> None:
        """
        Raises:
            ValueError: if `size` more bytes would be more than `LIMITS.disk`, or than the disk has.
        """
        if self.used() + size > LIMITS.disk << 20:
            raise ValueError(
                f"The files of all visitors may take {LIMITS.disk} MiB here, and there is no room for "
                f"{-(-size >> 20)} MiB more. Try again later."
            )
        if shutil.disk_usage(self.root).free < size:
            raise ValueError(f"The server's disk has no room for {-(-size >> 20)} MiB. Try again later.")

    def close(self) -> None:
        """Remove everything."""
        if os.getpid() == self._owner:  # a process that was forked from it may exit earlier
            shutil.rmtree(self.root, ignore_errors=True)
            self._held.release()


def _remove_if_left(folder: Path) -> None:
    """Remove the folder of a process that has ended."""
    if folder.is_symlink() or not (folder / LOCK).is_file():
        return  # another's, or one that is being made
    try:
        with FileLock(folder / LOCK, timeout=0):
            shutil.rmtree(folder, ignore_errors=True)
    except (Timeout, OSError):
        return


@contextlib.contextmanager
def pathless(folder: Path | str, name: str) -> Iterator[None]:
    """Replace the server's folder by `name` in what is raised.

    Raises:
        ValueError: for a ValueError and an OSError.
    """
    try:
        yield
    except (ValueError, OSError) as error:
        text = str(error).replace(str(Path(folder).resolve()), name).replace(str(folder), name)
        raise ValueError(text) from error


_storage: Storage | None = None
_opening = threading.Lock()


def storage() -> Storage:
    """Return the storage of this process, made on first use. Gradio's folder is in it from then on, so a
    page asks for it before it is built."""
    global _storage
    with _opening:
        if _storage is None:
            _storage = Storage(Path(os.environ.get(GRADIO) or tempfile.gettempdir()))
            os.environ[GRADIO] = str(_storage.gradio)
        return _storage
