"""The libraries that decode in a browser, from npm, with the versions and hashes of package-lock.json."""

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from mars_demo.core.assets import ASSETS

RUNTIME = {  # the files of onnxruntime-web by the device that computes
    "wasm": ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"),
    "webgpu": (
        "ort.webgpu.min.mjs",
        "ort-wasm-simd-threaded.asyncify.mjs",
        "ort-wasm-simd-threaded.asyncify.wasm",
    ),
}
TOKENIZERS = ("tokenizers.min.mjs",)  # of @huggingface/tokenizers
INSTALLED = ASSETS.parent / "node_modules"
LICENCES = Path(__file__).with_name("licences.txt")  # the package of onnxruntime-web has none


class MissingLibraries(ValueError):
    """The libraries cannot be had."""


def fetch(folder: Path, device: str) -> None:
    """Write the libraries for a device, wasm or webgpu, and their licences to a folder.

    Raises:
        MissingLibraries: if npm is missing or fails.
    """
    with TemporaryDirectory() as temporary:
        packages = INSTALLED if INSTALLED.is_dir() else _installed(Path(temporary))
        for name in RUNTIME[device]:
            shutil.copy(packages / "onnxruntime-web" / "dist" / name, folder)
        for name in TOKENIZERS:
            shutil.copy(packages / "@huggingface" / "tokenizers" / "dist" / name, folder)
    shutil.copy(LICENCES, folder)


def size(folder: Path, device: str) -> int:
    """Return the bytes of the libraries in a folder that a page loads for a device."""
    return sum((folder / name).stat().st_size for name in (*RUNTIME[device], *TOKENIZERS))


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
