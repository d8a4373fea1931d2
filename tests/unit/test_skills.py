"""Skills: plausible wrong answers fail, hostile ones are harmless, and skills are training data."""

import itertools
import json
import random
import sqlite3

import pytest
from task_examples import examples_of

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import SKILLS, sql
from mars_demo.tasks.skills.common import request, unfenced
from mars_demo.training import corpus


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("extraction", '": ', '_": '),
        ("extraction", "}", ', "more": 1}'),
        ("table-formats", "1", "2"),
        ("lists", "e", "a"),
        ("mending", ".", ""),
        ("mending", " ", "  "),
        ("quoting", '."', '"'),
        ("letters-from-notes", "Dear", "Dear Sir"),
        ("letters-from-notes", "Best regards,", "Best regards 77777,"),
        ("changelog", "### ", "#### "),
        ("renaming", "return", "yield"),
        ("records", "int", "str"),
        ("records", '"', "'x"),
        ("sql", "SELECT", "SELECT 1,"),
        ("sql", ">", "<"),
        ("dates", "-> ", "-> 1"),
        ("phones", "-> ", "-> 0"),
        ("conversion", "So", "Not"),
        ("receipts", "total is ", "total is 1"),
        ("sums", "= ", "= 1"),
        ("computing", "answer is ", "answer is 1"),
        ("times", "So ", "Not "),
        ("recipes", "- ", "- 1"),
        ("counting", "2. ", "2. un"),
        ("rows", "| ", "| x"),
        ("todo", "- [ ] ", "- [ ] not "),
        ("messages", "Subject: ", "Topic: "),
        ("replies", "Dear ", "Dear Sir "),
        ("cards", "Dear ", "Hello "),
        ("yes-no", "Yes.", "No."),
        ("correcting", "e", "ee"),
        ("bullets", "- ", "- x"),
        ("boilerplate", " ", " x"),
    ],
)
def test_plausible_wrong_answers_are_wrong(name, old, new):
    changed = [example for example in examples_of(name) if old in example.answer]
    assert changed
    for example in changed:
        assert not SKILLS[name].grade(example, example.answer.replace(old, new)), example


def test_the_form_of_an_answer_may_differ():
    example = examples_of("extraction")[0]
    assert SKILLS["extraction"].grade(example, f"```json\n{json.dumps(example.facts['fields'])}\n```")
    example = next(e for e in examples_of("lists") if e.answer.startswith("- "))
    assert SKILLS["lists"].grade(example, example.answer.replace("- ", "* "))
    example = next(e for e in examples_of("sql") if "WHERE" in e.answer)
    assert SKILLS["sql"].grade(example, example.answer.lower().replace(*_value_in_capitals(example)))
    example = examples_of("quoting")[0]
    assert SKILLS["quoting"].grade(example, example.answer.strip('"'))
    example = examples_of("renaming")[0]
    assert SKILLS["renaming"].grade(example, unfenced(example.answer) + "  # renamed")


def _value_in_capitals(example: Example) -> tuple[str, str]:
    """Return the value that a query has in lower case and its rows have capitalized."""
    value = example.answer.partition("'")[2].partition("'")[0] or "select"
    return value.lower(), value


@pytest.mark.parametrize(
    "change",
    [
        ("", "import os\n"),
        ("", "from os import system as dataclass\n"),
        ("from dataclasses import dataclass", ""),
        ("@dataclass\n", ""),
        ("@dataclass", "@print"),
        ("class {name}:", "class {name}(metaclass=exec):"),
        (": ", ": list and "),
        ("    ", "    x = 1\n    "),
        ("{code}", "{code}\n\n\nwhile True: pass"),
        ("{code}", "{code}\n    more: int = 0"),
    ],
)
def test_a_dataclass_has_its_fields_and_nothing_else(change):
    example = next(e for e in examples_of("records", 60) if "class" in e.answer)
    code = unfenced(example.answer)
    old, new = (part.format(code=code, **example.facts) for part in change)
    changed = code.replace(old, new, 1)
    assert changed != code and not SKILLS["records"].grade(example, changed)
    spaced = code.replace("@dataclass", "@dataclass(frozen=True)").replace(": ", " :  ")
    assert SKILLS["records"].grade(example, spaced)


@pytest.mark.parametrize(
    "query",
    [
        "DROP TABLE {table};",
        "DELETE FROM {table};",
        "ATTACH DATABASE '/tmp/x.db' AS x;",
        "PRAGMA writable_schema = 1;",
        "SELECT load_extension('x');",
        "SELECT zeroblob(1000000000);",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n;",
        "SELECT count(*) FROM {table} a, {table} b, {table} c, {table} d, {table} e;",
        "SELECT 1; DROP TABLE {table};",
    ],
)
def test_queries_are_read_only_and_limited_in_time(query):
    example = examples_of("sql", 1)[0]
    assert not SKILLS["sql"].grade(example, query.format(table=example.facts["table"]))


def test_a_query_that_guesses_the_rows_is_wrong():
    example = next(e for e in examples_of("sql") if "COUNT(*)" in e.answer and "WHERE" in e.answer)
    database = sql._database(example.facts, 0)
    (count,) = database.execute(example.answer).fetchone()
    assert not SKILLS["sql"].grade(example, f"SELECT {count};")
    with pytest.raises(sqlite3.DatabaseError):
        database.execute("CREATE TABLE more (id)")


def test_skills_are_training_data_and_mix_with_a_file(tmp_path):
    path = tmp_path / "chat.jsonl"
    talk = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello", "own": True}]
    path.write_text("\n".join(json.dumps({"messages": talk}) for _ in range(5)))

    def pool(data: str) -> list:
        return next(corpus.source(data, seed=0)(0, 1))

    mixed = pool(f"skills+{path}")[:10]
    assert [messages[1]["own"] for messages in mixed] == [False, True] * 5
    prompts = {messages[0]["content"] for messages in pool("skills")}
    assert prompts > {messages[0]["content"] for messages in mixed[::2]}
    assert pool("skills:sql,dates") == pool("tasks:sql,dates")
    assert pool(f"skills:sql,dates+{path}")[::2] == pool("skills:sql,dates")


@pytest.mark.parametrize("name", [name for name, task in SKILLS.items() if task.make_follow_up])
def test_follow_ups_continue_their_example(name):
    rng, further = random.Random(0), 0
    for example in examples_of(name, 20):
        second = SKILLS[name].make_follow_up(rng, example)
        further += bool(second.earlier)
        if second.earlier:
            assert second.earlier == (example.prompt, example.answer)
            assert [message["role"] for message in second.messages] == ["user", "assistant", "user"]
            assert SKILLS[name].grade(second, second.answer), second
            assert second.prompt != example.prompt
            if second.answer != example.answer:
                assert not SKILLS[name].grade(second, example.answer), second
    assert further


def test_only_the_phrasing_of_a_request_has_typos():
    rng = random.Random(0)
    material, field = "Some Materials, which Stay: 12.50", "the Fields Also"
    requests = {request(rng, "Please rewrite {what}", material, what=field) for _ in range(200)}
    requests |= {request(rng, "Rewrite {material} for {what}", material, what=field) for _ in range(200)}
    assert len(requests) > 60
    assert all(material in text and field in text for text in requests)


def test_two_turns_of_a_skill_are_one_conversation_of_training():
    pools = itertools.islice(corpus.source("skills", seed=0)(0, 1), 2)
    talks = [messages for pool in pools for messages in pool]
    longer = [messages for messages in talks if len(messages) == 4]
    assert 0.02 < len(longer) / len(talks) < 0.2
    for messages in longer:
        assert [answer["own"] for answer in messages[1::2]] == [False, False]
