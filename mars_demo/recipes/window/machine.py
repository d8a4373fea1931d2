"""The lent machine: the folders of the window, and the setup that each call begins with.

It imports no library, because the setup installs what the rest imports.
"""

import lzma
import os
import subprocess
import sys
import time
from pathlib import Path

from mars_demo.models.names import CHAT
from mars_demo.recipes.window import pieces

STARTED = time.monotonic()  # of the command, before slow imports
WINDOW = Path(".window")  # in the checkout, ignored by git
FIRST, SECOND = WINDOW / "first", WINDOW / "second"  # carried to the first and to the second call
PLAIN, WHEELS, PACKED = FIRST / "base", FIRST / "wheels", FIRST / "own.jsonl.xz"
BASE, OWN = WINDOW / "base", WINDOW / "own.jsonl"
SITE, CACHES = WINDOW / "site", WINDOW / "caches"
PROOF = WINDOW / "prove.json"
AR_TRAINED, TRAINED = WINDOW / "ar", WINDOW / "mars"
BUNDLE, PIECES = WINDOW / "bundle" / CHAT, WINDOW / "pieces"


def set_up() -> None:
    """Install the carried wheels, unpack data and base, and choose caches that later calls find again.

    Steps that an earlier call has done are skipped.
    """
    if not SITE.exists():
        wheels = map(str, WHEELS.glob("*.whl"))
        offline = ["--no-index", "--no-deps", "--no-compile", "--no-cache-dir", "--target", str(SITE)]
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", *offline, *wheels], check=True)
    sys.path.insert(0, str(SITE.resolve()))
    for name in ("TORCHINDUCTOR", "TRITON"):
        os.environ[f"{name}_CACHE_DIR"] = str((CACHES / name.lower()).resolve())
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # tokenizers run in forked workers
    if not OWN.exists():
        OWN.write_bytes(lzma.decompress(PACKED.read_bytes()))
    if SECOND.exists() and not BASE.exists():
        pieces.join([FIRST, SECOND], BASE)
        for file in PLAIN.iterdir():
            (BASE / file.name).write_bytes(file.read_bytes())
