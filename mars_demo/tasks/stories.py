"""Tiny stories of three sentences whose words can hardly be guessed."""

from __future__ import annotations

import random
import re

from mars_demo.tasks.common import Example, Task, ask, sentences_of

HEROES = tuple(
    """
    fox bear wolf rabbit mouse owl otter badger hedgehog squirrel cat dog pony donkey goat sheep
    lion tiger elephant giraffe monkey parrot penguin swan duck goose frog turtle lizard snake
    whale dolphin crab bee beetle spider butterfly dragon giant wizard witch pirate sailor baker
    farmer painter king queen prince knight teacher doctor gardener robot ghost clown singer
    dancer hunter shepherd
    """.split()
)
OBJECTS = tuple(
    """
    lantern kettle mirror drum ladder basket bottle button candle carpet clock coat comb compass
    cradle crown cup curtain diamond door drawer envelope feather fiddle flag flute fork glove
    guitar hammer harp hat helmet jar key kite knife lamp letter locket map marble mask medal
    needle net notebook paintbrush pearl pebble pencil piano pillow pipe plate pocket puzzle quilt
    ring rope saddle sandal scarf shawl shell shovel sled spoon statue sword teapot
    telescope ticket trumpet trunk umbrella vase violin wagon whistle
    """.split()
)

# Every word of a story is drawn from one of these lists (or is the hero or the object), so that
# hardly any word can be guessed from the words before it.
WORDS = {
    slot: tuple(words.split())
    for slot, words in {
        "the": "the that this one her his our my their another some your",
        "adj": """
            ancient bitter brave clumsy crooked curious dusty empty enormous faded forgotten
            frozen gentle golden grumpy hollow humble lonely lucky muddy nervous noisy patient
            purple quiet rusty secret sleepy stubborn tiny""",
        "went": """
            wandered danced slept stumbled hid waited hurried sang trembled limped whistled
            floated climbed rested listened vanished crawled laughed marched wept paused drifted
            sneezed galloped yawned stared bowed tumbled traveled shivered""",
        "took": """
            found carried painted dropped followed borrowed buried polished stole repaired
            watched lifted traded guarded remembered admired hugged ignored washed measured
            chased discovered kicked wrapped feared tickled collected noticed shook copied""",
        "did": """
            glittered rattled cracked melted hummed rolled burned swayed gleamed creaked fell
            bounced sank spun rang broke shone wobbled buzzed flickered smoked tilted snapped froze
            leaked""",
        "how": """
            softly bravely slowly twice proudly quietly sadly again gladly carefully nearby
            together alone forever happily outside everywhere gracefully loudly backwards
            politely eagerly barely sideways upstairs""",
        "near": """
            near behind beyond beneath above beside across around inside past under toward along
            through over against below""",
        "place": """
            river orchard mountain kitchen tower meadow bridge harbor cellar desert garden
            library island village cave forest market stable chimney valley castle bakery swamp
            attic waterfall road field church shore cottage""",
        "when": """
            yesterday today tonight once afterward meanwhile suddenly soon later eventually
            finally then somehow perhaps sometimes nowadays""",
        "join": """
            and but so while because until as yet since although whenever before after though""",
        "who": """
            somebody everyone nobody grandmother she he they we someone grandfather mother
            strangers neighbors I children""",
    }.items()
}  # fmt: skip

STARTS = (
    "{when} {the} {adj} {hero} {went} {near} {the} {adj} {place}.",
    "{near} {the} {place} {the} {hero} {went} {how}.",
    "{how}, {the} {adj} {hero} {took} {the} {place}.",
    "{the} {hero} {went} {join} {who} {took} {the} {adj} {place}.",
    "{who} {took} {the} {adj} {hero} {near} {the} {place}.",
    "{the} {adj} {hero} {how} {went} {near} {the} {place}.",
    "{adj} {join} {adj}, {the} {hero} {took} {the} {place} {when}.",
    "{when}, {who} {went} {join} {the} {hero} {went}.",
)
MIDDLES = (
    "{the} {adj} {object} {did} {how}.",
    "{who} {how} {took} {the} {object} {near} {the} {adj} {place}.",
    "{when} {the} {object} {did} {join} {the} {adj} {place} {did}.",
    "{near} {the} {adj} {place}, {the} {adj} {object} {did}.",
    "{the} {object} {did} {near} {the} {place} {join} {who} {went}.",
    "{how} {who} {took} {the} {adj} {object}.",
    "{who} {took} {the} {adj} {place} {join} {the} {object} {did} {how}.",
)
ENDS = (
    "{who} {went} {how}.",
    "{the} {adj} {place} {did} {join} {who} {took} {the} {hero}.",
    "{when}, {the} {hero} {how} {took} {the} {adj} {object}.",
    "{near} {the} {place} {who} {went} {how}.",
    "{who} {went} {join} {the} {place} {did}.",
    "{the} {hero} {went} {near} {the} {adj} {place} {join} {the} {object} {did}.",
    "{how}, {who} {took} {the} {place} {when}.",
    "{the} {object} {how} {did}, {join} {who} {went}.",
)

VOCABULARY = {word.lower() for words in (HEROES, OBJECTS, *WORDS.values()) for word in words}

ASKS = (
    "Write a tiny story about {a_hero} and {a_object}.",
    "Tell me a short story about {a_object} and {a_hero}.",
    "Can you make up a little story with {a_hero} and {a_object}?",
    "I want a three-sentence story about {a_hero} and {a_object}.",
    "Please write a very short story. It needs {a_object} and {a_hero}.",
    "pls tell a story about {a_hero} with {a_object}",
    "Make up a tiny tale of {a_hero} who has {a_object}.",
)


def make(rng: random.Random) -> Example:
    cast = {"hero": rng.choice(HEROES), "object": rng.choice(OBJECTS)}
    prompt = ask(rng, ASKS, a_hero=_with_article(cast["hero"]), a_object=_with_article(cast["object"]))
    skeletons = (rng.choice(part) for part in (STARTS, MIDDLES, ENDS))
    answer = " ".join(_sentence(rng, skeleton, cast) for skeleton in skeletons)
    return Example("stories", prompt, answer, cast)


def _sentence(rng: random.Random, skeleton: str, cast: dict[str, str]) -> str:
    def word(slot: re.Match[str]) -> str:
        return cast.get(slot[1]) or rng.choice(WORDS[slot[1]])

    return _capitalized(re.sub(r"\{(\w+)\}", word, skeleton))


def grade(example: Example, answer: str) -> bool:
    text = answer.strip()
    sentences = sentences_of(text)
    words = [part.strip(",.") for part in text.lower().split()]
    return (
        len(sentences) == 3
        and all(re.fullmatch(r"[A-Z][A-Za-z, ]*\.", sentence) for sentence in sentences)
        and all(word in VOCABULARY for word in words)
        and example.facts["hero"] in words
        and example.facts["object"] in words
    )


def _with_article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


TASK = Task("stories", "Tiny stories", make, grade)
