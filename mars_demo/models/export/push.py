"""Upload of a folder to the hub."""

import re
from collections.abc import Sequence
from pathlib import Path

from huggingface_hub import HfApi


def check_name(repository: str | None) -> None:
    """Check, before any work is done, the name of a repository to push to.

    Raises:
        ValueError: if it is not OWNER/NAME.
    """
    if repository and not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        raise ValueError(f"Name the hub's repository as OWNER/NAME, not {repository!r}.")


def push(folder: Path, repository: str, *, ignore_patterns: Sequence[str] = (), **settings: str) -> str:
    """Upload a folder and return its URL; `settings` apply to a new repository.

    Raises:
        ValueError: if the hub rejects it or is unreachable.
    """
    try:
        url = HfApi().create_repo(repository, exist_ok=True, **settings)
        HfApi().upload_folder(
            repo_id=repository,
            folder_path=folder,
            repo_type=settings.get("repo_type"),
            ignore_patterns=list(ignore_patterns),
        )
    except Exception as error:  # the hub's client raises many types
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ValueError(f"{folder} is written, but {repository} could not be pushed: {reason}") from error
    return str(url)
