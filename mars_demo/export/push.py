"""Uploading a checkpoint folder to the hub."""

from __future__ import annotations

from pathlib import Path


def push(folder: Path, repository: str) -> None:
    """Upload a checkpoint folder without training logs and training data.

    Raises:
        ValueError: if the hub refuses it or cannot be reached.
    """
    from huggingface_hub import HfApi  # slow to import

    try:
        HfApi().create_repo(repository, exist_ok=True)
        HfApi().upload_folder(repo_id=repository, folder_path=folder, ignore_patterns=["*.jsonl"])
    except Exception as error:  # whatever the hub's client raises, the folder is still there
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ValueError(f"{folder} is saved, but {repository} could not be pushed: {reason}") from error
