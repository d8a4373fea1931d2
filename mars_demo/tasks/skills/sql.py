"""SQL queries for a question and a schema, graded by their results on random SQLite databases."""

import random
import sqlite3
from contextlib import closing
from dataclasses import dataclass

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import LONGEST, Kinds, kinds, request, skill, texts, unfenced

FUNCTIONS = {"count", "sum", "avg", "min", "max", "round", "lower", "upper", "like"}
STEPS = 100_000  # most SQLite virtual machine steps per query
ROWS = 200  # most rows of a result to compare
DATABASES = 3  # per query, against results that are right by chance


@dataclass(frozen=True)
class Schema:
    """A table with columns for names, for categories with their values, and for numbers."""

    table: str
    name: str
    category: str
    values: tuple[str, ...]
    number: str

    def create(self, order: list[str]) -> str:
        kinds = {self.number: "INTEGER"}
        columns = ", ".join(f"{column} {kinds.get(column, 'TEXT')}" for column in order)
        return f"CREATE TABLE {self.table} ({columns});"

    @property
    def columns(self) -> list[str]:
        return [self.name, self.category, self.number]


SCHEMAS = Kinds(
    seen=(
        Schema("employees", "name", "department", ("Sales", "Support", "Legal", "Research"), "salary"),
        Schema("books", "title", "genre", ("Crime", "Poetry", "History", "Travel"), "pages"),
        Schema("orders", "customer", "city", words.CITIES[:8], "total"),
        Schema("products", "name", "category", ("Garden", "Kitchen", "Office", "Sports"), "price"),
        Schema("students", "name", "course", ("Art", "Biology", "Chemistry", "Music"), "score"),
        Schema("movies", "title", "director", words.LAST_NAMES[:8], "year"),
        Schema("cars", "model", "color", ("red", "blue", "white", "black"), "mileage"),
        Schema("rooms", "number", "building", ("North", "South", "Annex"), "seats"),
    ),
    unseen=(
        Schema("flights", "code", "destination", words.CITIES[8:16], "delay"),
        Schema("songs", "title", "artist", words.LAST_NAMES[8:16], "seconds"),
        Schema("plants", "species", "bed", ("Front", "Back", "Roof"), "height"),
    ),
)
QUESTIONS = texts("sql")["questions"]  # each with its query
ASKS = kinds("sql")


def make(rng: random.Random, unseen: bool) -> Example:
    schema = SCHEMAS.pick(rng, unseen)
    question, query = rng.choice(QUESTIONS)
    blanks = {
        "table": schema.table,
        "name": schema.name,
        "category": schema.category,
        "number": schema.number,
        "value": rng.choice(schema.values),
        "n": rng.randint(2, 90) * 10,
        "k": rng.randint(2, 9),
    }
    create = schema.create(rng.sample(schema.columns, 3))
    query = query.format(**blanks)
    facts = {"query": query, "create": create, "values": schema.values, "columns": schema.columns}
    prompt = request(rng, ASKS.pick(rng, unseen), create, question=question.format(**blanks))
    return Example("sql", prompt, query, facts | {"table": schema.table, "n": blanks["n"]})


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer gives the right rows in each database, in order if the query has one."""
    facts, answer = example.facts, unfenced(answer[:LONGEST])
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
    numbers = rng.sample(range(1, 1000), 30)
    numbers[:2] = facts["n"], facts["n"] + 1  # the bound and its neighbour distinguish > from >=
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
