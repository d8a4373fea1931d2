"""Downloads of checkpoints from a Hugging Face hub, into the hub client's shared cache."""

import errno
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
from huggingface_hub.utils import WeakFileLock, build_hf_headers, tqdm

from mars_demo.core.names import choices, split_name

Report = Callable[[str, int, int], None]  # phase, bytes so far, total bytes

_TEXTS = (".json", ".jinja", ".txt", ".model", "README.md")  # config, tokenizer, template, card
_PART = ".incomplete"  # of a file that is being downloaded, as the hub client names it
_PATIENCE = 10  # timeout of the hub's first response in seconds


class Cancelled(Exception):
    """An error that a report raises to cancel a download."""


def fetch(name: str, report: Report | None = None, weights: bool = True) -> str:
    """Return the folder of a model's files; download those that are not cached.

    If the hub is unreachable, a completely cached model is used.

    report: called with `fetching`, the bytes so far, and the bytes of the model.
    weights: whether to fetch the weights too.

    Raises:
        ValueError: if it cannot be fetched, with the reason in one sentence.
    """
    try:
        sizes = _sizes(_ask(name))
    except OSError as error:
        if folder := cached(name, weights):
            return folder
        raise ValueError(_refusal(name, error)) from error
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
        return snapshot_download(name, allow_patterns=list(sizes), tqdm_class=bar)  # links the files
    except Cancelled:
        raise
    except Exception as error:  # the hub's HTTP client raises many types
        raise ValueError(_interruption(name, error, bar.done, total)) from error


def offer(name: str) -> tuple[int, dict[str, Any]]:
    """Return the bytes of a model's files on the hub, and the front matter of its card.

    Raises:
        ValueError: if the hub does not tell, with the reason in one sentence.
    """
    try:
        info = _ask(name)
    except OSError as error:
        raise ValueError(_refusal(name, error)) from error
    return sum(_sizes(info).values()), info.card_data.to_dict() if info.card_data else {}


def held(name: str) -> int:
    """Return the bytes of a model's files whose download was interrupted."""
    return sum(file.stat().st_size for file in _blobs(name).glob(f"*{_PART}"))


def _blobs(name: str) -> Path:
    return Path(constants.HF_HUB_CACHE, _folder(name), "blobs")


def _folder(name: str) -> str:
    return repo_folder_name(repo_id=name, repo_type="model")


def _download(name: str, file: str, bar: type[tqdm]) -> None:
    """Download a file into the cache, beginning where an earlier download was interrupted.

    The hub client itself would begin again.
    """
    url, headers = hf_hub_url(name, file), build_hf_headers()
    metadata = get_hf_file_metadata(url, timeout=_PATIENCE)
    blob = _blobs(name) / Path(metadata.etag).name  # a hub decides on no folder
    lock = Path(constants.HF_HUB_CACHE, ".locks", _folder(name), f"{blob.name}.lock")  # the hub client's
    for folder in (blob.parent, lock.parent):
        folder.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(lock):
        if blob.exists():
            return
        part = blob.with_name(f"{blob.name}{_PART}")
        with part.open("ab") as stream:
            http_get(
                url,
                stream,
                resume_size=stream.tell(),
                headers=headers,
                expected_size=metadata.size,
                tqdm_class=bar,
            )
        part.rename(blob)


def cached(name: str, weights: bool = True) -> str | None:
    """Return the folder of a completely cached model, or None, without network access."""
    try:
        sizes = needed_files((file.path, file.size) for file in get_cached_repo_tree(name))
    except CachedRepoTreeNotFoundError:  # another program fetched single files
        sizes = {"config.json": 0}
    sizes = {file: size for file, size in sizes.items() if weights or not _is_weights(file)}
    try:
        folder = snapshot_download(name, allow_patterns=list(sizes), local_files_only=True)
    except LocalEntryNotFoundError:
        return None
    files = [file.name for file in Path(folder).iterdir() if file.exists()]
    is_complete = sizes.keys() <= {*files} and (not weights or any(map(_is_weights, files)))
    return folder if is_complete else None


def _ask(name: str) -> ModelInfo:
    """Return the hub's description of a model."""
    try:
        return HfApi().model_info(name, files_metadata=True, timeout=_PATIENCE)
    except OSError:
        raise
    except Exception as error:  # the HTTP client has its own exception types
        raise ConnectionError(str(error)) from error


def _sizes(info: ModelInfo) -> dict[str, int]:
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
        best = min(
            quantized,
            key=lambda name: ("q8_0" not in name.lower(), sum(quantized[name].values())),
            default=None,
        )
        weights = quantized.get(best, {})
    return texts | weights


def _is_weights(file: str) -> bool:
    return file.endswith((".safetensors", ".gguf"))


def _require_room(name: str, size: int) -> None:
    folder = Path(constants.HF_HUB_CACHE)
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
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
            self._counts = options.get("name") == "huggingface_hub.http_get"
            if self._counts:
                Bar.done += options.get("initial") or 0
            super().__init__(*arguments, **options | {"disable": True})

        def update(self, n: float | None = 1) -> None:
            if self._counts and n:
                Bar.done += int(n)
                if report:
                    report("fetching", Bar.done, total)

    return Bar


def megabytes(size: int) -> str:
    """Return a number of bytes in megabytes."""
    return f"{size / 1e6:.1f} MB"


def _refusal(name: str, error: OSError) -> str:
    if isinstance(error, GatedRepoError):
        return f"{name} is a gated model: accept its terms on the hub and set HF_TOKEN here."
    if isinstance(error, RepositoryNotFoundError):
        return f"The hub has no model {name}, and there is no such folder. {choices()}"
    if isinstance(error, OfflineModeIsEnabled):
        return f"{name} cannot be fetched: HF_HUB_OFFLINE prevents downloads, and there is no such folder."
    if isinstance(error, HfHubHTTPError):
        return f"{name} cannot be fetched: the hub returned status {error.response.status_code}."
    return f"{name} cannot be fetched: the hub at {constants.ENDPOINT} is unreachable."


def _interruption(name: str, error: Exception, done: int, total: int) -> str:
    where = f"at {megabytes(done)} of {megabytes(total)}"
    if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"The disk is full: fetching {name} stopped {where}. Free some space, then try again."
    return f"Fetching {name} was interrupted {where}. Try again: it goes on from there."
