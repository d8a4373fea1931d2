"""The libraries that decode in a browser, from npm, with the versions and hashes of package-lock.json."""

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from mars_demo.core.assets import ASSETS

FILES = {  # by the folder of their package
    "onnxruntime-web": ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"),
    "@huggingface/tokenizers": ("tokenizers.min.mjs",),
}
INSTALLED = ASSETS.parent / "node_modules"
LICENCES = Path(__file__).with_name("licences.txt")  # the package of onnxruntime-web has none


class MissingLibraries(ValueError):
    """The libraries cannot be had."""


def fetch_libraries(folder: Path) -> None:
    """Write the libraries and their licences to a folder.

    Raises:
        MissingLibraries: if npm is missing or fails.
    """
    with TemporaryDirectory() as temporary:
        packages = INSTALLED if INSTALLED.is_dir() else _installed(Path(temporary))
        for package, names in FILES.items():
            for name in names:
                shutil.copy(packages / package / "dist" / name, folder)
    shutil.copy(LICENCES, folder)


def _installed(folder: Path) -> Path:
    """Install the pinned packages in a folder and return theirs; npm checks their hashes."""
    npm = shutil.which("npm")
    if npm is None:
        raise MissingLibraries("The live page needs npm, to fetch its libraries.")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(ASSETS.parent / name, folder)
    command = [npm, "ci", "--omit=dev", "--ignore-scripts"]
    if subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode:
        raise MissingLibraries("npm could not fetch the libraries of the live page; try again.")
    return folder / "node_modules"
