"""The libraries that decode in a browser, from npm, with the versions and hashes of package-lock.json."""

import base64
import hashlib
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterable
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
LOCK = ASSETS.parent / "package-lock.json"
INSTALLED = ASSETS.parent / "node_modules"  # by `npm ci`, which checks the hashes
LICENCES = Path(__file__).with_name("licences.txt")  # the package of onnxruntime-web has none


class MissingLibraries(ValueError):
    """The libraries cannot be had."""


def fetch(folder: Path, device: str) -> None:
    """Write the libraries for a device, wasm or webgpu, and their licences to a folder.

    Raises:
        MissingLibraries: if npm is missing or fails, or a package is not the pinned one.
    """
    for package, names in (("onnxruntime-web", RUNTIME[device]), ("@huggingface/tokenizers", TOKENIZERS)):
        with TemporaryDirectory() as unpacked:
            source = INSTALLED / package
            if not source.is_dir():
                source = _unpacked(package, names, Path(unpacked))
            for name in names:
                shutil.copy(source / "dist" / name, folder)
    shutil.copy(LICENCES, folder)


def size(folder: Path, device: str) -> int:
    """Return the bytes of the libraries in a folder that a page loads for a device."""
    return sum((folder / name).stat().st_size for name in (*RUNTIME[device], *TOKENIZERS))


def _unpacked(package: str, names: Iterable[str], folder: Path) -> Path:
    """Return the folder of a package from npm, with these of its files."""
    pinned = json.loads(LOCK.read_text("utf-8"))["packages"][f"node_modules/{package}"]
    name = f"{package}@{pinned['version']}"
    npm = shutil.which("npm")
    if npm is None:
        raise MissingLibraries(f"The live page needs npm, to fetch {name}.")
    command = [npm, "pack", "--silent", "--pack-destination", folder, name]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        raise MissingLibraries(f"The live page needs {name}, which npm could not fetch; try again.")
    [packed] = folder.iterdir()
    digest = base64.b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode()
    if pinned["integrity"] != f"sha512-{digest}":
        raise MissingLibraries(f"npm's {name} is not the pinned one: its SHA-512 differs.")
    with tarfile.open(packed) as archive:
        for name in names:
            archive.extract(f"package/dist/{name}", folder, filter="data")
    return folder / "package"
