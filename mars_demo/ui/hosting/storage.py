"""The temporary files of visitors: one folder with their trained models and Gradio's downloads.

The app removes its folder when it exits, and the folders of killed apps when it starts.
"""

import atexit
import contextlib
import functools
import os
import shutil
import tempfile
from pathlib import Path

from filelock import FileLock, Timeout

from mars_demo.core.limits import LIMITS

PREFIX, LOCK = "mars-demo-", "in-use"
GRADIO = "GRADIO_TEMP_DIR"  # the variable with Gradio's folder of downloads


class Storage:
    """A folder in `parent` for temporary files.

    This process locks a file in it as long as it lives, so that others can recognize abandoned folders.

    Raises:
        OSError: if the folder cannot be made.
    """

    def __init__(self, parent: Path):
        parent.mkdir(parents=True, exist_ok=True)
        for lock in parent.glob(f"{PREFIX}*/{LOCK}"):
            if not lock.parent.is_symlink():
                with contextlib.suppress(Timeout, OSError), FileLock(lock, timeout=0):
                    shutil.rmtree(lock.parent, ignore_errors=True)
        self.root = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        self._lock = FileLock(self.root / LOCK)
        self._lock.acquire()
        self._process = os.getpid()
        self.gradio = self.root / "gradio"
        atexit.register(self.close)

    def folder(self) -> Path:
        """Make and return a new folder."""
        return Path(tempfile.mkdtemp(dir=self.root))

    def used(self) -> int:
        """Return the size of all files in bytes."""
        total = 0
        for folder, _, files in os.walk(self.root):
            for file in files:
                with contextlib.suppress(OSError):  # removed meanwhile
                    total += os.lstat(os.path.join(folder, file)).st_size
        return total

    def require(self, size: int) -> None:
        """Check that there is room for `size` more bytes.

        Raises:
            ValueError: if the files would exceed `LIMITS.disk` or the disk.
        """
        if self.used() + size > LIMITS.disk << 20:
            raise ValueError(
                f"The limit for the files of all visitors is {LIMITS.disk} MiB here, and there is no room "
                f"for {-(-size >> 20)} MiB more. Try again later."
            )
        if shutil.disk_usage(self.root).free < size:
            raise ValueError(f"The server's disk has no room for {-(-size >> 20)} MiB. Try again later.")

    def close(self) -> None:
        """Remove the folder."""
        if os.getpid() == self._process:  # a forked process may exit earlier
            shutil.rmtree(self.root, ignore_errors=True)
            self._lock.release()


@functools.cache
def storage() -> Storage:
    """Return the storage of this process; the first call makes it and moves Gradio's folder into it.

    A page calls this before it is built, since Gradio reads its folder then.
    """
    made = Storage(Path(os.environ.get(GRADIO) or tempfile.gettempdir()))
    os.environ[GRADIO] = str(made.gradio)
    return made
