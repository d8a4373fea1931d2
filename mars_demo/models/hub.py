"""Downloads of checkpoints from a Hugging Face hub, into the hub client's shared cache."""

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from huggingface_hub import (
    HfApi,
    ModelInfo,
    constants,
    get_cached_repo_tree,
    hf_hub_download,
    snapshot_download,
    try_to_load_from_cache,
)
from huggingface_hub.errors import (
    CachedRepoTreeNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from huggingface_hub.utils import disable_progress_bars
from tqdm import tqdm

from mars_demo.core.names import choices, split_name

disable_progress_bars("huggingface_hub.snapshot_download")  # it would draw bars

Report = Callable[[int, int], None]  # bytes so far, total bytes

_TEXTS = (".json", ".jinja", ".txt", ".model", "README.md")  # config, tokenizer, template, card
_PATIENCE = 10  # timeout of the hub's first response in seconds


def fetch(name: str, report: Report | None = None, weights: bool = True) -> str:
    """Return the folder of a model's files; download those that are not cached.

    An interrupted download keeps its complete files. If the hub is unreachable, a completely cached model
    is used.

    report: called with the bytes so far, and the bytes of the model.
    weights: whether to fetch the weights too.

    Raises:
        ValueError: if it cannot be fetched, with the reason in one sentence.
    """
    try:
        info = _ask(name)
    except ValueError:
        if folder := cached(name, weights):
            return folder
        raise
    sizes = _needed_of(info, weights)
    if weights and not any(file.endswith((".safetensors", ".gguf")) for file in sizes):
        raise ValueError(f"{name} has no weights in safetensors or GGUF on the hub.")
    missing = [
        file for file in sizes if not isinstance(try_to_load_from_cache(name, file, revision=info.sha), str)
    ]
    total = sum(sizes.values())
    done = total - sum(sizes[file] for file in missing)
    _require_room(name, total - done)
    try:
        for file in missing:
            hf_hub_download(name, file, revision=info.sha, tqdm_class=_reporting(report, done, total))
            done += sizes[file]
        return snapshot_download(name, allow_patterns=list(sizes))  # records which files there are
    except Exception as error:  # the hub's HTTP client raises many types
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(
            f"Fetching {name} was interrupted ({reason}). Try again: complete files, {megabytes(done)} of "
            f"{megabytes(total)}, are kept."
        ) from error


def cached(name: str, weights: bool = True) -> str | None:
    """Return the folder of a completely cached model, or None, without network access."""
    try:
        files = needed_files(((file.path, file.size) for file in get_cached_repo_tree(name)), weights)
        return snapshot_download(name, allow_patterns=list(files), local_files_only=True)
    except (CachedRepoTreeNotFoundError, LocalEntryNotFoundError):
        return None


def _ask(name: str) -> ModelInfo:
    """Return the hub's description of a model.

    Raises:
        ValueError: if the hub does not tell, with the reason in one sentence.
    """
    try:
        return HfApi().model_info(name, files_metadata=True, timeout=_PATIENCE)
    except Exception as error:  # the hub's HTTP client raises many types
        raise ValueError(_refusal(name, error)) from error


def _needed_of(info: ModelInfo, weights: bool = True) -> dict[str, int]:
    return needed_files(((file.rfilename, file.size or 0) for file in info.siblings or ()), weights)


def needed_files(files: Iterable[tuple[str, int]], weights: bool = True) -> dict[str, int]:
    """Return the files that loading needs, with their sizes in bytes.

    These are the config and tokenizer files and the safetensors in the top folder, or one GGUF model, split
    or not, if there are no safetensors.

    weights: whether the weights are needed too.
    """
    top = {file: size for file, size in files if "/" not in file}
    texts = {file: size for file, size in top.items() if file.endswith(_TEXTS)}
    if not weights:
        return texts
    stored = {f: size for f, size in top.items() if f.startswith("model") and f.endswith(".safetensors")}
    if not stored:
        quantized = {}
        for file in filter(lambda file: file.endswith(".gguf"), sorted(top)):
            quantized.setdefault(split_name(file), {})[file] = top[file]
        # Prefer Q8_0, which loses least; otherwise the smallest, as all take the same memory once loaded.
        order = {
            name: ("q8_0" not in name.lower(), sum(sizes.values())) for name, sizes in quantized.items()
        }
        stored = quantized.get(min(order, key=order.get, default=None), {})
    return texts | stored


def _require_room(name: str, size: int) -> None:
    cache = Path(constants.HF_HUB_CACHE)
    cache.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(cache).free
    if size > free:
        raise ValueError(
            f"There is not enough disk space for {name}: it needs {megabytes(size)}, and "
            f"{megabytes(free)} are free."
        )


def _reporting(report: Report | None, before: int, total: int) -> type[tqdm]:
    """Return a progress bar class for the hub client, which reports bytes and draws nothing.

    before: bytes of the files before this one.
    """

    class Bar(tqdm):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options | {"disable": True})

        def update(self, n: float | None = 1) -> None:
            self.n += n or 0
            if report:
                report(before + int(self.n), total)

    return Bar


def megabytes(size: int) -> str:
    """Return a number of bytes in megabytes."""
    return f"{size / 1e6:.1f} MB"


def _refusal(name: str, error: Exception) -> str:
    if isinstance(error, GatedRepoError):
        return f"{name} is a gated model: accept its terms on the hub and set HF_TOKEN here."
    if isinstance(error, RepositoryNotFoundError):
        return f"The hub has no model {name}, and there is no such folder. {choices()}"
    if isinstance(error, OfflineModeIsEnabled):
        return f"{name} cannot be fetched: HF_HUB_OFFLINE prevents downloads, and there is no such folder."
    if isinstance(error, HfHubHTTPError):
        return f"{name} cannot be fetched: the hub returned status {error.response.status_code}."
    return f"{name} cannot be fetched: the hub at {constants.ENDPOINT} is unreachable."
