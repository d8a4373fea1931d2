"""Downloads of checkpoints from a Hugging Face hub, into the hub client's shared cache."""

from collections.abc import Iterable

from huggingface_hub import HfApi, constants, get_cached_repo_tree, snapshot_download
from huggingface_hub.errors import (
    CachedRepoTreeNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)

from mars_demo.core.names import choices, split_name

_TEXTS = (".json", ".jinja", ".txt", ".model", "README.md")  # config, tokenizer, template, card
_PATIENCE = 10  # timeout of the hub's first response in seconds


def fetch(name: str, weights: bool = True) -> str:
    """Return the folder of a model's files; download those that are not cached.

    An interrupted download keeps its complete files. If the hub is unreachable, a completely cached model
    is used.

    weights: whether to fetch the weights too.

    Raises:
        ValueError: if it cannot be fetched, with the reason in one sentence.
    """
    try:
        info = HfApi().model_info(name, files_metadata=True, timeout=_PATIENCE)
    except Exception as error:  # the hub's HTTP client raises many types
        if folder := cached(name, weights):
            return folder
        raise ValueError(_refusal(name, error)) from error
    files = needed_files(((file.rfilename, file.size or 0) for file in info.siblings or ()), weights)
    if weights and not any(file.endswith((".safetensors", ".gguf")) for file in files):
        raise ValueError(f"{name} has no weights in safetensors or GGUF on the hub.")
    try:
        return snapshot_download(name, allow_patterns=files)
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(
            f"Fetching {name} was interrupted ({reason}). Try again: complete files are kept."
        ) from error


def cached(name: str, weights: bool = True) -> str | None:
    """Return the folder of a completely cached model, or None, without network access."""
    try:
        files = needed_files(((file.path, file.size) for file in get_cached_repo_tree(name)), weights)
        return snapshot_download(name, allow_patterns=files, local_files_only=True)
    except (CachedRepoTreeNotFoundError, LocalEntryNotFoundError):
        return None


def needed_files(files: Iterable[tuple[str, int]], weights: bool = True) -> list[str]:
    """Return the files that loading needs, of pairs of a file and its size in bytes.

    These are the config and tokenizer files and the safetensors in the top folder, or one GGUF model, split
    or not, if there are no safetensors.

    weights: whether the weights are needed too.
    """
    sizes = {file: size for file, size in files if "/" not in file}
    texts = [file for file in sizes if file.endswith(_TEXTS)]
    if not weights:
        return texts
    if stored := [file for file in sizes if file.startswith("model") and file.endswith(".safetensors")]:
        return texts + stored
    quantized: dict[str, list[str]] = {}
    for file in filter(lambda file: file.endswith(".gguf"), sorted(sizes)):
        quantized.setdefault(split_name(file), []).append(file)
    # Prefer Q8_0, which loses least; otherwise the smallest, as all take the same memory once loaded.
    order = {name: ("q8_0" not in name.lower(), sum(map(sizes.get, f))) for name, f in quantized.items()}
    return texts + quantized.get(min(order, key=order.get, default=None), [])


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
