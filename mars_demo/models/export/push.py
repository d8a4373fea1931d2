"""Upload of a Space to the hub."""

import re
from pathlib import Path

from huggingface_hub import HfApi


def check_name(repository: str | None) -> None:
    """Check, before any work is done, the name of a repository to push to.

    Raises:
        ValueError: if it is not OWNER/NAME.
    """
    if repository and not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        raise ValueError(f"Name the hub's repository as OWNER/NAME, not {repository!r}.")


def push(folder: Path, repository: str, **settings: str) -> str:
    """Upload the folder of a Space and return its URL; `settings` apply to a new one.

    Raises:
        ValueError: if the hub rejects it or is unreachable.
    """
    try:
        url = HfApi().create_repo(repository, repo_type="space", exist_ok=True, **settings)
        HfApi().upload_folder(repo_id=repository, folder_path=folder, repo_type="space")
    except Exception as error:  # the hub's client raises many types
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ValueError(f"{folder} is written, but {repository} could not be pushed: {reason}") from error
    return str(url)
