"""Replies to a message: acceptance, refusal, another day, thanks or confirmation."""

import random
import re

from mars_demo.tasks.common import Example, capitalized
from mars_demo.tasks.skills import messages, words
from mars_demo.tasks.skills.common import request, skill, texts

TEXT = texts("replies")
_REFUSAL = "sorry|cannot|can't|unable|unfortunately"
# Patterns of the replies with each intent.
ABOUT = {
    "decline": _REFUSAL,
    "move": r"instead|another|other|different|rather",
    "thanks": r"[Tt]hank",
    **dict.fromkeys(("accept", "confirm"), rf"^(?!.*({_REFUSAL}))"),
}
FIELDS = messages.FIELDS | {
    "favor": words.one_of(TEXT.favors),
    **words.drawings({"topic": TEXT.topics, "reason": TEXT.reasons}),
    "new": messages.day,
}


def make(rng: random.Random, unseen: bool) -> Example:
    intent, phrasing = TEXT.asks.pick(rng, unseen)
    message = rng.choice([message for message in TEXT.messages.of(unseen) if intent in message])
    form = "email" if "\n" in phrasing and rng.random() < 0.5 else "text"
    layout = rng.choice(TEXT.layouts[form])
    names = {*message["fields"], *words.fields_of(phrasing + layout)} - {"material", "text", "subject"}
    names = {name.removesuffix("_on") for name in names}
    fields = messages.drawn(rng, sorted(names), FIELDS)
    fields |= _other_forms(fields)
    subject = capitalized(messages.filled([message["subject"]], fields))
    text = messages.filled([rng.choice(message["texts"])], fields)
    material = layout.format(**fields, text=text, subject=subject)
    prompt = request(rng, phrasing, material, **fields)
    body = messages.filled(message[intent], fields)
    used = {name: value for name, value in fields.items() if value in body}
    used |= {name: fields[name] for name in ("to", "sender") if name in fields}
    source = "\n".join((prompt, *used.values()))
    facts = {"form": form, "fields": used, "about": ABOUT[intent], "source": source}
    return Example("replies", prompt, messages.written(form, f"Re: {subject}", body, fields), facts)


def _other_forms(fields: dict[str, str]) -> dict[str, str]:
    """Return the forms of fields as the sender says them and as the reply does."""
    forms = {}
    if "new" in fields:
        forms["new_on"] = messages.on(fields["new"])
    if "favor" in fields:
        forms["favor"] = fields["favor"].format(my="my")
        forms["favor_back"] = fields["favor"].format(my="your")
    if "task" in fields:
        forms["your_task"] = re.sub(r"^my\b", "your", fields["task"])
    return forms


TASK = skill("replies", "Replies to messages", make, messages.grade)
