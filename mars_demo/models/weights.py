"""Names and shapes of stored weights, from the headers of their files."""

import json
from pathlib import Path

from safetensors import safe_open

from mars_demo.core.names import gguf_file


def require_files(folder: Path) -> None:
    """Check that a folder has safetensors, and all files that its index names.

    Raises:
        ValueError: if a file is missing.
    """
    here = {file.name for file in folder.iterdir()}
    index = folder / "model.safetensors.index.json"
    if index.exists():
        shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        if missing := sorted(shards - here):
            raise ValueError(f"{len(missing)} of its {len(shards)} weight files are missing: {missing[0]}.")
    elif "model.safetensors" not in here:
        pickled = any(file.endswith((".bin", ".pt", ".pth")) for file in here)
        raise ValueError(
            "its weights are pickled, which can run code; use safetensors or GGUF."
            if pickled
            else "it has no weights in safetensors or GGUF."
        )


def stored_shapes(path: str) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors of a folder or a GGUF file by their stored names.

    Raises:
        SafetensorError, OSError, ValueError: if a file is broken.
    """
    if file := gguf_file(path):
        from mars_demo.models.gguf import stored_tensors  # imports gguf, which safetensors do not need

        return {name: tuple(map(int, t.shape[::-1])) for name, t in stored_tensors(file).items()}
    shapes = {}
    for file in sorted(Path(path).glob("*.safetensors")):
        with safe_open(file, framework="numpy") as tensors:
            for name in tensors.keys():  # noqa: SIM118, it is not a dict
                shapes[name] = tuple(tensors.get_slice(name).get_shape())
    return shapes
