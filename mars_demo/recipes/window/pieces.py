"""A file or folder as pieces with SHA-256, and groups of pieces that one call can return."""

import hashlib
import io
import json
import shutil
import tarfile
from pathlib import Path

SIZE = 15 * 2**20  # bytes of a piece, of the 16 MiB that a returned file may have
GROUP = 4  # pieces of a group, of the 64 MiB that a call returns
LIST = "pieces.json"


def split(source: Path, folder: Path, size: int = SIZE) -> None:
    """Write the pieces of a file, or of a folder as a tar file, and their list to `folder`."""
    name, data = (
        (f"{source.name}.tar", _tar(source)) if source.is_dir() else (source.name, source.read_bytes())
    )
    folder.mkdir(parents=True, exist_ok=True)
    parts = {f"piece-{at // size:02}": data[at : at + size] for at in range(0, len(data), size)}
    for piece, part in parts.items():
        (folder / piece).write_bytes(part)
    hashes = {piece: _hash(part) for piece, part in parts.items()}
    (folder / LIST).write_text(json.dumps({"name": name, "pieces": hashes}, indent=1), encoding="utf-8")


def deliver(folder: Path, group: int, output: Path) -> None:
    """Copy a group of pieces, counted from 0, and the list to `output`."""
    pieces = [*_listed(folder)["pieces"]][group * GROUP : (group + 1) * GROUP]
    output.mkdir(parents=True, exist_ok=True)
    for name in (*pieces, LIST):
        shutil.copy(folder / name, output)


def join(folders: list[Path], output: Path) -> Path:
    """Write the file or folder whose pieces lie in `folders` to the folder `output`; return its path.

    Raises:
        ValueError: if a piece is missing or damaged.
    """
    listed = next((_listed(folder) for folder in folders if (folder / LIST).exists()), None)
    if listed is None:
        raise ValueError(f"No folder has {LIST}, the list of the pieces.")
    data = b"".join(_piece(name, folders, digest) for name, digest in listed["pieces"].items())
    output.mkdir(parents=True, exist_ok=True)
    target = output / listed["name"]
    if target.suffix != ".tar":
        target.write_bytes(data)
        return target
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        tar.extractall(output, filter="data")
    return target.with_suffix("")


def _tar(folder: Path) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        tar.add(folder, folder.name)
    return data.getvalue()


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _listed(folder: Path) -> dict:
    return json.loads((folder / LIST).read_text(encoding="utf-8"))


def _piece(name: str, folders: list[Path], digest: str) -> bytes:
    path = next((folder / name for folder in folders if (folder / name).exists()), None)
    if path is None:
        raise ValueError(f"The piece {name} is missing.")
    data = path.read_bytes()
    if _hash(data) != digest:
        raise ValueError(f"{path} is damaged.")
    return data
