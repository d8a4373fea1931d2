"""Downloads of checkpoints from a Hugging Face hub, into the hub client's shared cache."""

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from huggingface_hub import (
    HfApi,
    ModelInfo,
    constants,
    get_cached_repo_tree,
    get_hf_file_metadata,
    hf_hub_url,
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
from huggingface_hub.file_download import http_get, repo_folder_name
from huggingface_hub.utils import WeakFileLock, build_hf_headers, disable_progress_bars, tqdm

from mars_demo.core.names import choices, split_name

disable_progress_bars("huggingface_hub.snapshot_download")  # it would draw bars

Report = Callable[[int, int], None]  # bytes so far, total bytes

_TEXTS = (".json", ".jinja", ".txt", ".model", "README.md")  # config, tokenizer, template, card
_PART = ".incomplete"  # of a file that is being downloaded, as the hub client names it
_PATIENCE = 10  # timeout of the hub's first response in seconds


class Cancelled(Exception):
    """An error that a report raises to cancel a download."""


def fetch(name: str, report: Report | None = None, weights: bool = True) -> str:
    """Return the folder of a model's files; download those that are not cached.

    If the hub is unreachable, a completely cached model is used.

    report: called with the bytes so far, and the bytes of the model.
    weights: whether to fetch the weights too.

    Raises:
        ValueError: if it cannot be fetched, with the reason in one sentence.
    """
    try:
        sizes = _needed_of(_ask(name))
    except ValueError:
        if folder := cached(name, weights):
            return folder
        raise
    if not weights:
        sizes = {file: size for file, size in sizes.items() if not _is_weights(file)}
    elif not any(map(_is_weights, sizes)):
        raise ValueError(f"{name} has no weights in safetensors or GGUF on the hub.")
    missing = [file for file in sizes if not isinstance(try_to_load_from_cache(name, file), str)]
    total, complete = sum(sizes.values()), sum(sizes[file] for file in sizes if file not in missing)
    _require_room(name, total - complete - held(name))
    bar = _counting(total, report)
    bar.done = complete
    try:
        for file in missing:
            _download(name, file, bar)
            bar.done = complete = complete + sizes[file]
        return snapshot_download(name, allow_patterns=list(sizes))  # links the files
    except Cancelled:
        raise
    except Exception as error:  # the hub's HTTP client raises many types
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(
            f"Fetching {name} was interrupted at {megabytes(bar.done)} of {megabytes(total)} ({reason}). "
            "Try again: it goes on from there."
        ) from error


def offer(name: str) -> tuple[int, dict[str, Any]]:
    """Return the bytes of a model's files on the hub, and the front matter of its card.

    Raises:
        ValueError: if the hub does not tell, with the reason in one sentence.
    """
    info = _ask(name)
    return sum(_needed_of(info).values()), info.card_data.to_dict() if info.card_data else {}


def held(name: str) -> int:
    """Return the bytes of a model's files whose download was interrupted."""
    blobs = Path(constants.HF_HUB_CACHE, _folder(name), "blobs")
    return sum(file.stat().st_size for file in blobs.glob(f"*{_PART}"))


def cached(name: str, weights: bool = True) -> str | None:
    """Return the folder of a completely cached model, or None, without network access."""
    try:
        files = needed_files((file.path, file.size) for file in get_cached_repo_tree(name))
        patterns = [file for file in files if weights or not _is_weights(file)]
        return snapshot_download(name, allow_patterns=patterns, local_files_only=True)
    except (CachedRepoTreeNotFoundError, LocalEntryNotFoundError):
        return None


def _folder(name: str) -> str:
    return repo_folder_name(repo_id=name, repo_type="model")


def _download(name: str, file: str, bar: type[tqdm]) -> None:
    """Download a file into the cache, beginning where an earlier download was interrupted.

    The hub client itself would begin again.
    """
    url, headers = hf_hub_url(name, file), build_hf_headers()
    metadata = get_hf_file_metadata(url, timeout=_PATIENCE)
    cache, etag = Path(constants.HF_HUB_CACHE), Path(metadata.etag).name  # a hub decides on no folder
    blob = cache / _folder(name) / "blobs" / etag
    lock = cache / ".locks" / _folder(name) / f"{etag}.lock"  # the hub client's
    for path in (blob, lock):
        path.parent.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(lock):
        if blob.exists():
            return
        part = blob.with_name(f"{etag}{_PART}")
        with part.open("ab") as stream:
            start, size = stream.tell(), metadata.size
            http_get(url, stream, resume_size=start, headers=headers, expected_size=size, tqdm_class=bar)
        part.rename(blob)


def _ask(name: str) -> ModelInfo:
    """Return the hub's description of a model.

    Raises:
        ValueError: as `offer`.
    """
    try:
        return HfApi().model_info(name, files_metadata=True, timeout=_PATIENCE)
    except Exception as error:  # the hub's HTTP client raises many types
        raise ValueError(_refusal(name, error)) from error


def _needed_of(info: ModelInfo) -> dict[str, int]:
    return needed_files((file.rfilename, file.size or 0) for file in info.siblings or ())


def needed_files(files: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return the files that loading needs, with their sizes in bytes.

    These are the config and tokenizer files and the safetensors in the top folder, or one GGUF model, split
    or not, if there are no safetensors.
    """
    top = {file: size for file, size in files if "/" not in file}
    texts = {file: size for file, size in top.items() if file.endswith(_TEXTS)}
    weights = {f: size for f, size in top.items() if f.startswith("model") and f.endswith(".safetensors")}
    if not weights:
        quantized = {}
        for file in filter(lambda file: file.endswith(".gguf"), sorted(top)):
            quantized.setdefault(split_name(file), {})[file] = top[file]
        # Prefer Q8_0, which loses least; otherwise the smallest, as all take the same memory once loaded.
        order = {
            name: ("q8_0" not in name.lower(), sum(sizes.values())) for name, sizes in quantized.items()
        }
        weights = quantized.get(min(order, key=order.get, default=None), {})
    return texts | weights


def _is_weights(file: str) -> bool:
    return file.endswith((".safetensors", ".gguf"))


def _require_room(name: str, size: int) -> None:
    cache = Path(constants.HF_HUB_CACHE)
    cache.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(cache).free
    if size > free:
        raise ValueError(
            f"There is not enough disk space for {name}: it needs {megabytes(size)}, and "
            f"{megabytes(free)} are free."
        )


def _counting(total: int, report: Report | None) -> type[tqdm]:
    """Return a progress bar class for the hub client, which reports bytes and draws nothing."""

    class Bar(tqdm):
        done = 0

        def __init__(self, *arguments, **options):
            Bar.done += options.get("initial") or 0
            super().__init__(*arguments, **options | {"disable": True})

        def update(self, n: float | None = 1) -> None:
            Bar.done += int(n or 0)
            if report:
                report(Bar.done, total)

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
