"""Short emails and text messages from a request without notes, and replies to a message."""

import random
import re
from collections.abc import Callable, Mapping, Sequence

from mars_demo.tasks.common import Example, capitalized, sentences_of, stripped_lines
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import new_numbers, request, skill, texts

MESSAGES, REPLIES = texts("messages"), texts("replies")
ROLES = {*MESSAGES.roles, "shop"}  # people and places that a message does not name
PLACEHOLDER = "[Your name]"


def _addressee(rng: random.Random) -> str:
    """Return a first name or, at times, a title with a last name."""
    if rng.random() < 0.85:
        return rng.choice(words.FIRST_NAMES)
    return f"{rng.choice(('Mr.', 'Ms.', 'Mrs.', 'Dr.'))} {rng.choice(words.LAST_NAMES)}"


def _day(rng: random.Random) -> str:
    """Return a day as people name it: "Friday", "next Monday", "tomorrow" or "May 12"."""
    style = rng.random()
    if style < 0.1:
        return "tomorrow"
    if style < 0.3:
        return f"{rng.choice(words.MONTHS)} {rng.randint(1, 28)}"
    return rng.choice(("", "", "", "next ")) + rng.choice(words.DAYS)


def _on(named_day: str) -> str:
    return named_day if named_day.startswith(("tomorrow", "next ")) else f"on {named_day}"


def _time(rng: random.Random) -> str:
    """Return a time as people name it: "noon", "6", "6 pm", "6:30 pm" or "18:30"."""
    hour, minute = rng.randint(1, 9), rng.choice(("00", "15", "30", "45"))
    return rng.choice(("noon", f"{hour}", f"{hour} pm", f"{hour}:{minute} pm", f"{hour + 12}:{minute}"))


_NAMED = {"day": _day, "time": _time, "addressee": _addressee, "when": lambda rng: _on(_day(rng))}
FIELDS = words.drawings(MESSAGES.pools | MESSAGES.roles | MESSAGES.fields, **_NAMED)
REPLY_FIELDS = FIELDS | words.drawings(REPLIES.fields, **_NAMED, my=lambda _: "{my}")
NAMES_AND_DAYS = ("to", "sender", "kid", "day", "other", "when", "weekday", "weekday2")


def _from_request(rng: random.Random, unseen: bool) -> Example:
    kind, phrasing = MESSAGES.asks.pick(rng, unseen)
    values = draw_fields(rng, sorted({*words.fields_of(phrasing)}), FIELDS)
    prompt = request(rng, phrasing, **_typed(rng, values))
    form = "email" if re.search(r"\be?-?mail\b", phrasing, re.IGNORECASE) else "text"
    return _message(prompt, prompt, kind, form, {f: v for f, v in values.items() if f not in ROLES})


def draw_fields(
    rng: random.Random, fields: Sequence[str], generators: Mapping[str, Callable]
) -> dict[str, str]:
    """Return a value for each field, all different."""
    values: dict[str, str] = {}
    for field in fields:
        value = generators[field](rng)
        while any(value in other or other in value for other in values.values()):
            value = generators[field](rng)
        values[field] = value
    return values


def _typed(rng: random.Random, values: Mapping[str, str]) -> dict[str, str]:
    """Return values as people type them: at times with names and days in lower case."""
    lower = NAMES_AND_DAYS if rng.random() < 0.15 else ()
    return {field: value.lower() if field in lower else value for field, value in values.items()}


def _message(prompt: str, source: str, kind: str, form: str, fields: dict[str, str]) -> Example:
    template = MESSAGES.kinds[kind]
    subject, body = fill_sentences([template["subject"]], fields), fill_sentences(template["body"], fields)
    facts = {"kind": kind, "form": form, "fields": fields, "about": template["about"], "source": source}
    return Example("messages", prompt, _written(form, subject, body, fields), facts)


def fill_sentences(sentences: Sequence[str | Sequence[str]], fields: Mapping[str, str]) -> str:
    """Return a text; of each sentence's alternatives it has the first whose fields are given."""
    chosen = []
    for sentence in sentences:
        alternatives = [sentence] if isinstance(sentence, str) else sentence
        chosen.append(next(text for text in alternatives if set(words.fields_of(text)) <= set(fields)))
    return " ".join(filter(None, chosen)).format(**fields)


def _written(form: str, subject: str, body: str, fields: Mapping[str, str]) -> str:
    """Return a body as an email with subject, greeting and sign-off, or as a text message."""
    to = fields.get("to")
    if form == "text":
        start = body if re.match(r"I\b", body) else body[0].lower() + body[1:]
        return f"Hi {to}, {start}" if to else body
    greeting, sender = f"Dear {to}," if to else "Hello,", fields.get("sender", PLACEHOLDER)
    return f"Subject: {capitalized(subject)}\n\n{greeting}\n\n{body}\n\nBest regards,\n{sender}"


def follow_up(rng: random.Random, example: Example, unseen: bool) -> Example | None:
    """Return a request to change the addressee, the sender, a day, a time or the form."""
    kind, form, fields = (example.facts[key] for key in ("kind", "form", "fields"))
    targets = {"to", "sender", "text"} if form == "email" else {"to", "email"}
    targets |= {"minutes", "time"} & set(fields) | ({"day"} if {"day", "when"} & set(fields) else set())
    target, phrasing = rng.choice([pair for pair in MESSAGES.follow_ups.of(unseen) if pair[0] in targets])
    if target in ("text", "email"):
        prompt, form, changed = request(rng, phrasing), target, dict(fields)
        if form == "text":
            changed.pop("sender", None)
    else:
        new = FIELDS[target](rng)
        while new.lower() in example.prompt.lower():
            new = FIELDS[target](rng)
        field, value = ("when", _on(new)) if target == "day" and "when" in fields else (target, new)
        prompt, changed = request(rng, phrasing, new=new), fields | {field: value}
    return _message(prompt, f"{example.facts['source']}\n{prompt}", kind, form, changed)


# Names, days and phrases that a message may have only if its request has them. "May" is also a verb, and
# "the picnic" is part of "the picnic basket".
_PHRASES = {value for values in MESSAGES.pools.values() for value in values if " " in value}
_PHRASES -= {phrase for phrase in _PHRASES if re.fullmatch(r"(my|the) \w+", phrase)}
_TERMS = {*words.FIRST_NAMES, *words.DAYS, *words.MONTHS, "tomorrow", "tonight", "yesterday"} | _PHRASES
_TERM = re.compile(
    r"\b(?:(?:Mr|Ms|Mrs|Dr)\. \w+|"
    rf"{'|'.join(re.escape(term) for term in sorted(_TERMS - {'May'}, key=len, reverse=True))})\b"
)


def invents(answer: str, source: str) -> bool:
    """Return whether an answer has a number, name, day or known phrase that its source lacks."""
    return bool(new_numbers(answer, source)) or any(
        term.lower() not in source.lower() for term in _TERM.findall(answer)
    )


def grade(example: Example, answer: str) -> bool:
    """Return whether the message has the right form and every detail of its request, and invents none.

    Facts: the `form` ("email" or "text"), the `fields` with all details, a pattern `about` the matter, and
    the `source`, which is everything that the user has written.
    """
    facts, fields, answer = example.facts, example.facts["fields"], answer.strip()
    lines = stripped_lines(answer)
    body = (_email_body if facts["form"] == "email" else _text_body)(lines, fields)
    others = [value for field, value in fields.items() if field not in ("to", "sender")]
    sentences = sentences_of(body)
    return (
        body.endswith((".", "!", "?"))
        and len(answer) > 0.6 * len(example.answer)
        and len(answer.split()) <= 70
        and len(set(sentences)) == len(sentences)
        and all(re.search(rf"(?<!\w){re.escape(value)}(?!\w)", body, re.IGNORECASE) for value in others)
        and re.search(facts["about"], body) is not None
        and not invents(answer, facts["source"])
    )


def _email_body(lines: list[str], fields: Mapping[str, str]) -> str:
    """Return the body of an email, or nothing if its subject, greeting or sign-off is wrong."""
    if len(lines) < 5 or not re.match(r"Subject: *\S", lines[0]):
        return ""
    to, sender = fields.get("to"), fields.get("sender", PLACEHOLDER)
    greeting = rf"(Dear|Hello|Hi|Hey) {re.escape(to)}[,!]" if to else r"(Dear|Hello|Hi)( [^,]+)?[,!]"
    greeted = re.fullmatch(greeting, lines[1])
    return " ".join(lines[2:-2]) if greeted and lines[-2].endswith(",") and lines[-1] == sender else ""


def _text_body(lines: list[str], fields: Mapping[str, str]) -> str:
    """Return a text message, or nothing if it looks like an email or does not name its addressee."""
    body = " ".join(lines)
    named = fields.get("to", "") in body and PLACEHOLDER not in body
    return body if named and not body.startswith(("Subject", "Dear")) else ""


def _reply(rng: random.Random, unseen: bool) -> Example:
    intent, phrasing = REPLIES.asks.pick(rng, unseen)
    message = rng.choice([message for message in REPLIES.messages.of(unseen) if intent in message])
    form = "email" if "\n" in phrasing and rng.random() < 0.5 else "text"
    layout = rng.choice(REPLIES.layouts[form])
    names = {*message["fields"], *words.fields_of(phrasing + layout)} - {"material", "text", "subject"}
    names = {name.removesuffix("_on") for name in names}
    fields = draw_fields(rng, sorted(names), REPLY_FIELDS)
    fields |= _other_forms(fields)
    subject = capitalized(fill_sentences([message["subject"]], fields))
    text = fill_sentences([rng.choice(message["texts"])], fields)
    material = layout.format(**fields, text=text, subject=subject)
    prompt = request(rng, phrasing, material, **fields)
    body = fill_sentences(message[intent], fields)
    used = {name: value for name, value in fields.items() if value in body}
    used |= {name: fields[name] for name in ("to", "sender") if name in fields}
    source = "\n".join((prompt, *used.values()))
    facts = {"form": form, "fields": used, "about": REPLIES.about[intent], "source": source}
    return Example("replies", prompt, _written(form, f"Re: {subject}", body, fields), facts)


def _other_forms(fields: dict[str, str]) -> dict[str, str]:
    forms = {}
    if "new" in fields:
        forms["new_on"] = _on(fields["new"])
    if "favor" in fields:
        forms["favor"] = fields["favor"].format(my="my")
        forms["favor_back"] = fields["favor"].format(my="your")
    if "task" in fields:
        forms["your_task"] = re.sub(r"^my\b", "your", fields["task"])
    return forms


WRITTEN = skill("messages", "Emails and text messages", _from_request, grade, follow_up)
REPLIED = skill("replies", "Replies to messages", _reply, grade)
