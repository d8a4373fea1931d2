"""The Python examples of the README and the docs run as they stand."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = [
    pytest.param(code, id=f"{page.stem}-{number}", marks=pytest.mark.full if "smollm2" in code else ())
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL))
    if "from mars_demo" in code
]


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs(code):
    with ThreadPoolExecutor(1) as beside:  # an example may call asyncio.run, and a browser has a loop here
        beside.submit(exec, compile(code, "example", "exec"), {}).result()
