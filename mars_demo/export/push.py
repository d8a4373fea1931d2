"""Uploading a folder to the hub."""

from collections.abc import Sequence
from pathlib import Path


def push(folder: Path, repository: str, *, ignore_patterns: Sequence[str] = (), **settings: str) -> str:
    """Upload a folder and return its URL. `settings` are those of a new repository.

    Raises:
        ValueError: if the hub refuses it or cannot be reached.
    """
    from huggingface_hub import HfApi  # slow to import

    try:
        url = HfApi().create_repo(repository, exist_ok=True, **settings)
        HfApi().upload_folder(
            repo_id=repository,
            folder_path=folder,
            repo_type=settings.get("repo_type"),
            ignore_patterns=list(ignore_patterns),
        )
    except Exception as error:  # whatever the hub's client raises, the folder is still there
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ValueError(f"{folder} is written, but {repository} could not be pushed: {reason}") from error
    return str(url)
