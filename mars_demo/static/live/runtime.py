"""The libraries that decode in a browser, from npm: pinned versions, checked by their hashes."""

import hashlib
import shutil
import subprocess
import tarfile
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory

from mars_demo.core.assets import ASSETS


@dataclass(frozen=True)
class Library:
    """A file of an npm package: the package with its version, the path inside, and the SHA-256 in hex.

    device: where it computes; None for both.
    """

    package: str
    path: str
    sha256: str
    device: str | None = None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


ONNX_RUNTIME, TOKENIZERS = "onnxruntime-web@1.30.0", "@huggingface/tokenizers@0.2.0"
LIBRARIES = (
    Library(
        ONNX_RUNTIME,
        "dist/ort.wasm.min.mjs",
        "219e6a1fc8a9938268d18efca3c91d310bd2f4a59bbd13744df5b2b7fc6cee3b",
        "wasm",
    ),
    Library(
        ONNX_RUNTIME,
        "dist/ort-wasm-simd-threaded.mjs",
        "e13f7f94fc51b4ca72b12faeb1ee95f4ace6dfbc8939bc718aabdc0a27c4299b",
        "wasm",
    ),
    Library(
        ONNX_RUNTIME,
        "dist/ort-wasm-simd-threaded.wasm",
        "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
        "wasm",
    ),
    Library(
        ONNX_RUNTIME,
        "dist/ort.webgpu.min.mjs",
        "3dffff71811bc13a3a3d9591c57ca5ee5735b8f5f3eaf789510b02bb040ae3a0",
        "webgpu",
    ),
    Library(
        ONNX_RUNTIME,
        "dist/ort-wasm-simd-threaded.asyncify.mjs",
        "3d1c85995364bb643302fc6fd877a0c3ba5ae72401815e0f24828a53d9191e28",
        "webgpu",
    ),
    Library(
        ONNX_RUNTIME,
        "dist/ort-wasm-simd-threaded.asyncify.wasm",
        "39f9f0894d478800487ed9f7dbe92618498db320cf55c8e3d89adff8dce658da",
        "webgpu",
    ),
    Library(
        TOKENIZERS,
        "dist/tokenizers.min.mjs",
        "258e46332101335ce8d95aed7745b19ac3b46d37f3e159a89cf894c2ea9b1d3a",
    ),
)
INSTALLED = ASSETS.parent / "node_modules" / "onnxruntime-web"
LICENCES = Path(__file__).with_name("licences.txt")  # the package of onnxruntime-web has none


class MissingLibraries(ValueError):
    """The libraries cannot be had."""


def needed(device: str) -> list[Library]:
    """Return the libraries of a page that computes with wasm or webgpu."""
    return [library for library in LIBRARIES if library.device in (None, device)]


def fetch(folder: Path, device: str, url: str | None = None) -> None:
    """Write the libraries for a device and their licences to a folder.

    url: the folder that has copies of the files, if not npm's registry.

    Raises:
        MissingLibraries: if npm is missing or fails, or a file is missing or not the pinned one.
    """
    libraries = needed(device)
    copies = (
        _copies(libraries, url)
        if url
        else _installed(libraries)
        if INSTALLED.is_dir()
        else _packed(libraries)
    )
    for library, content in copies:
        if hashlib.sha256(content).hexdigest() != library.sha256:
            raise MissingLibraries(f"{library.name} is not that of {library.package}: its SHA-256 differs.")
        (folder / library.name).write_bytes(content)
    shutil.copy(LICENCES, folder)


def size(folder: Path, device: str) -> int:
    """Return the bytes of the libraries in a folder that a page loads for a device."""
    return sum((folder / library.name).stat().st_size for library in needed(device))


Contents = Iterator[tuple[Library, bytes]]


def _installed(libraries: Iterable[Library]) -> Contents:
    """Yield the files' contents from the packages that `npm ci` has installed in a clone."""
    for library in libraries:
        package, _, _ = library.package.rpartition("@")
        yield library, (INSTALLED.parent / package / library.path).read_bytes()


def _packed(libraries: Iterable[Library]) -> Contents:
    """Yield the files' contents from npm's packages."""
    needs = f"The live page needs npm, to fetch {ONNX_RUNTIME} and {TOKENIZERS}"
    instead = "or --runtime-url URL of a folder with their files."
    npm = shutil.which("npm")
    if npm is None:
        raise MissingLibraries(f"{needs}, {instead}")
    for package, files in groupby(libraries, attrgetter("package")):
        with TemporaryDirectory() as folder:
            command = [npm, "pack", "--silent", "--pack-destination", folder, package]
            if subprocess.run(command, capture_output=True, check=False).returncode:
                raise MissingLibraries(f"{needs}, but npm could not fetch {package}; try again, {instead}")
            [packed] = Path(folder).iterdir()
            with tarfile.open(packed) as archive:
                for library in files:
                    yield library, archive.extractfile(f"package/{library.path}").read()


def _copies(libraries: Iterable[Library], url: str) -> Contents:
    """Yield the files' contents from a folder of the web."""
    for library in libraries:
        address = f"{url.rstrip('/')}/{library.name}"
        try:
            with urllib.request.urlopen(address) as response:
                yield library, response.read()
        except (OSError, ValueError) as error:
            raise MissingLibraries(f"Cannot read {address}: {error}.") from error
