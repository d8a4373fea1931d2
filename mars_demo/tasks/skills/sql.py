"""SQL queries for a question and a schema, graded by their results on random SQLite databases."""

import random
import sqlite3
from contextlib import closing

from mars_demo.tasks.common import Example, capitalized
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import request, skill, texts, unfenced

FUNCTIONS = {"count", "sum", "avg", "min", "max", "round", "lower", "upper", "like"}
STEPS = 100_000  # most SQLite virtual machine steps per query
ROWS = 200  # most rows of a result to compare
DATABASES = 3  # per query, against results that are right by chance
TEXT = texts("sql")


def make(rng: random.Random, unseen: bool) -> Example:
    table, name, category, values, number = TEXT.schemas.pick(rng, unseen)
    ask, question, n = TEXT.asks.pick(rng, unseen), rng.choice(TEXT.questions), rng.randint(2, 90) * 10
    columns = {"name": name, "category": category, "number": number}
    blanks = {"table": table, "value": rng.choice(values), "n": n, "m": n + 100, "k": rng.randint(2, 9)}
    blanks |= columns
    wordings = question["unseen" if unseen else "seen"]
    task = rng.choice(wordings["tasks"]).format(**blanks)
    sentences = (f"{capitalized(task)}.", rng.choice(wordings["questions"]).format(**blanks))
    order = rng.sample(list(columns.values()), 3)
    typed = [f"{column} {'INTEGER' if column == number else 'TEXT'}" for column in order]
    create = f"CREATE TABLE {table} ({', '.join(typed)});"
    described = {"table": table, "columns": ", ".join(order), "create": create}
    # A request that names the columns itself needs no other description of the table.
    is_described = "{columns}" in ask or "{create}" in ask
    forms = {"typed": ", ".join(typed), "lines": ",\n  ".join(typed), "bars": " | ".join(order)}
    description = "" if is_described else TEXT.tables.pick(rng, unseen).format(**described, **forms)
    prompt = request(rng, ask, description, **described, question=rng.choice(sentences), task=task)
    query = question["query"].format(**blanks)
    facts = {"query": query, "create": create, "values": values, "columns": [*columns.values()]}
    return Example("sql", prompt, query, facts | {"table": table, "n": n})


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer gives the right rows in each database, in order if the query has one."""
    facts, answer = example.facts, unfenced(answer)
    for number in range(DATABASES):
        with closing(_database(facts, number)) as database:
            right, rows = (_rows(database, query) for query in (facts["query"], answer))
        if rows is not None and "ORDER BY" not in facts["query"]:
            right, rows = sorted(right, key=repr), sorted(rows, key=repr)
        if right != rows:
            return False
    return True


def _database(facts: dict, number: int) -> sqlite3.Connection:
    """Return an in-memory database of random rows that allows only reading, for limited steps."""
    rng = random.Random(f"{facts['query']}-{number}")
    database = sqlite3.connect(":memory:")
    database.execute(facts["create"])
    bounds = [facts["n"] + step for step in (-1, 0, 1)]  # to distinguish > from >= and < from <=
    numbers = bounds + rng.sample([number for number in range(1, 1000) if number not in bounds], 27)
    rows = [
        (f"{rng.choice(words.FIRST_NAMES)} {i}", rng.choice(facts["values"]), n)
        for i, n in enumerate(numbers)
    ]
    columns = ", ".join(facts["columns"])
    database.executemany(f"INSERT INTO {facts['table']} ({columns}) VALUES (?, ?, ?)", rows)
    database.commit()
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 100_000)
    database.set_authorizer(_permit)
    steps = iter(range(STEPS // 1000))
    database.set_progress_handler(lambda: next(steps, None) is None, 1000)
    return database


def _permit(action: int, _, name: str | None, *__) -> int:
    is_allowed = action == sqlite3.SQLITE_FUNCTION and (name or "").lower() in FUNCTIONS
    is_read = action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ)
    return sqlite3.SQLITE_OK if is_allowed or is_read else sqlite3.SQLITE_DENY


def _rows(database: sqlite3.Connection, query: str) -> list[tuple] | None:
    """Return the result of a query, or None if it is invalid or not allowed."""
    try:
        return database.execute(query).fetchmany(ROWS)
    except (sqlite3.Error, sqlite3.Warning, ValueError):
        return None


TASK = skill("sql", "SQL queries", make, grade)
