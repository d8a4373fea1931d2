"""The lessons: their form, and the recorded runs and results of which they say something."""

import itertools
import json
from statistics import fmean

import pytest

from mars_demo.core.acceptance import TAU, accepted
from mars_demo.core.assets import ASSETS, read_json
from mars_demo.core.names import CHAT, TINY
from mars_demo.core.trace import Run, read_text
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.evaluation import paper_tables, results
from mars_demo.evaluation.calibration import calibrations
from mars_demo.evaluation.frontier import Frontier
from mars_demo.show import recordings
from mars_demo.ui import plots
from mars_demo.ui.lessons import CHAPTERS, figures, tables

MOST, LONGEST = 22, 150  # chapters, and words of each
LONGER = dict.fromkeys(("batches", "cost", "lossless", "neighbours", "sft-loss"), 200)  # for their reasons
TEXTS = {chapter["id"]: chapter["text"] for chapter in CHAPTERS}
ELEMENTS = {chapter["id"]: chapter["element"] for chapter in CHAPTERS}


def options(chapter: str) -> dict[str, dict]:
    return {option["title"]: option for option in ELEMENTS[chapter]["options"]}


def runs(option: dict) -> dict[str, Run]:
    """Return the recorded runs of an option by mode."""
    return {run.settings.mode: run for run in read_text(recordings.recording(option["run"]))}


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter["id"])
def test_a_chapter_is_short_and_shows_its_figure(chapter):
    assert len(chapter["text"].split()) <= LONGER.get(chapter["id"], LONGEST)
    assert any(update["visible"] for update in figures.lesson_figure(chapter).values())


def test_every_chapter_has_its_place():
    order = read_json("lessons", "order.json")
    files = {path.stem for path in (ASSETS / "lessons").glob("*.json")} - {"order", "path"}
    assert order == [chapter["id"] for chapter in CHAPTERS] and len(order) <= MOST
    assert sorted(order) == sorted(files)


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter["id"])
def test_a_chapter_has_two_questions_with_short_answers(chapter):
    assert len(chapter["questions"]) == 2
    assert all(len(one["answer"].split()) <= 40 for one in chapter["questions"])


def test_a_path_of_45_minutes_follows_the_order():
    path, order = read_json("lessons", "path.json"), read_json("lessons", "order.json")
    assert sum(path.values()) == 45 and [*path] == sorted(path, key=order.index)


PREDICTED = {chapter["id"]: chapter["predict"] for chapter in CHAPTERS if "predict" in chapter}


def test_what_readers_predict_is_what_the_figures_show():
    def forwards(run: str) -> dict[str, int]:
        return {mode: one.forwards for mode, one in runs({"run": run}).items()}

    step, timed = ELEMENTS["one-step"], {title: runs(one) for title, one in options("fast-texts").items()}
    slower = [name for name, run in timed.items() if run["ar"].seconds < run["mars"].seconds]
    costs = [measured["costs"]["forwards"] for measured, _ in MEASURED]
    assert all(1.35 < dict(forwards)[9] / forwards[0][1] < 1.65 for forwards in costs)
    shown = {
        "window": f"{forwards('bus')['mars']} forwards",
        "one-step": f"{sum(accepted(scores, step['tau']) for scores in step['scores'])} tokens",
        "fast-texts": "a free one: a story",
        "cost": "about 1.5 times as long",
        "lossless": f"{forwards('lossless-lossy')['lossless']} forwards",
        "grammar": f"{forwards('fields')['ar']} forwards",
    }
    assert {id: one["choices"][one["answer"]] for id, one in PREDICTED.items()} == shown
    assert all(len({*one["choices"]}) == 3 for one in PREDICTED.values())
    assert slower == ["free", "free, and slower"]
    said = {"window": forwards("bus")["ar"], "lossless": forwards("lossless-lossy")["mars"]}
    said |= {"grammar": runs({"run": "fields"})["ar"].tokens}
    assert all(f"{number}" in PREDICTED[id]["question"] for id, number in said.items())


def json_of(update: dict) -> dict:
    return json.loads(update["value"])


@pytest.mark.parametrize("title", options("marginals"))
def test_two_masks_guess_the_same_token(title):
    """The titles are texts that only MARS writes; two slots of one forward accept the same token."""
    answers = runs(options("marginals")[title])
    assert title in answers["mars"].text and title not in answers["ar"].text
    accepted = [[slot.text for slot in step.slots[: step.accepted]] for step in answers["mars"].passes]
    twice = {first for step in accepted for first, second in itertools.pairwise(step) if first == second}
    assert twice & {*(f" {word}" for word in title.split()), *filter(str.isdigit, title)}


def test_saved_forwards_are_not_always_saved_time():
    answers = {title: runs(option) for title, option in options("fast-texts").items()}
    faster = {title: run["ar"].seconds / run["mars"].seconds for title, run in answers.items()}
    fewer = {title: run["ar"].forwards / run["mars"].forwards for title, run in answers.items()}
    assert faster["derived"] > 2 and fewer["derived"] > 2
    assert fewer["copied"] > 1.4 and faster["copied"] < 1.3
    assert answers["copied"]["lossless"].text == answers["copied"]["ar"].text
    assert answers["copied"]["ar"].seconds > 1.5 * answers["copied"]["lossless"].seconds
    assert fewer["free"] < 1.1 and faster["free"] < 1.1
    assert fewer["free, and slower"] > 1 > faster["free, and slower"]
    for title, source, said in (("derived", "mask", "{} of its {}"), ("copied", "copy", "{} of its {}")):
        run = answers[title]["lossless"]
        drafts = [slot.source for step in run.passes for slot in step.slots[: step.accepted]].count(source)
        assert said.format(drafts, run.tokens) in options("fast-texts")[title]["words"]


def test_masks_learn_to_guess():
    answers = {}
    for title, option in options("mask-training").items():
        [answers[title]] = read_text(figures.training(option)["stage"]["value"])
    right = "So there are 29 people on the bus."
    assert right in answers["160"].text and right not in answers["1"].text
    assert min(answers, key=lambda title: answers[title].forwards) == "160"


# ------------------------------------------------------------------------- sentences and their figures


def test_shares_of_ar_signal_equal_the_paper():
    for line, shares in zip(plots.ar_share((4, 8, 16)).data, ([62.5, 56.2, 53.1], [25, 12.5, 6.2])):
        assert [round(share, 1) for share in line.y] == shares


def test_lossless_is_the_fine_tuned_model_and_not_its_base(ar_tiny, mars_tiny):
    lanes = [(ar_tiny, "ar"), (mars_tiny, "ar"), (mars_tiny, "lossless")]
    rows = ELEMENTS["reference"]["rows"]
    for (prompt, _, answer, tokens), (checkpoint, mode) in zip(rows, itertools.cycle(lanes)):
        run = decode(checkpoint, prompt, Request(mode)).finish()
        assert (answer, tokens) == (run.text, f"{run.tokens} in {run.forwards}")
    worse = [row[2] for row in rows[1:3]]
    assert "44, 46, 48." in rows[0][2] and worse[0] == worse[1] and "44" not in worse[0]


def test_the_first_mask_stands_at_the_first_token_of_the_answer():
    drawn = json_of(figures.lesson_grid(ELEMENTS["two-streams"])["grid"])
    clean = [row for row in drawn["rows"] if row["stream"] == "clean"]
    masks = [row for row in drawn["rows"] if row["stream"] == "noisy"]
    first = next(row for row in clean if row["target"])
    assert (first["label"], first["target"]) == ("?", " The")
    assert [row["position"] for row in masks] == list(range(first["position"] + 1, clean[-1]["position"]))
    assert (clean[masks[0]["position"]]["label"], masks[0]["target"]) == (" The", " capital")


def test_what_confident_masks_cost():
    run = runs(options("marginals")["I received received"])["mars"]
    accepted = (step.slots[: step.accepted] for step in run.passes)
    twice = next(slots[1:] for slots in accepted if [slot.text for slot in slots[1:]] == [" received"] * 2)
    said = [f"*{slot.text.strip()}* ({slot.score:.3f})" for slot in twice]
    [sweep] = [
        one for one in results.read_results("frontier.json")["sweeps"] if one["model"] != "mars-tiny"
    ]
    points = [p for p in Frontier.read(sweep).points if p.setting.criterion in (None, "probability")]
    said += [f"{100 * point.accuracy:.1f}%" for point in points]
    said += [f"changes {len(point.different)}" for point in points if point.different]
    assert points[0].n == 136 and all(figure in TEXTS["marginals"] for figure in said)


def test_what_a_threshold_promises_and_a_training_costs():
    counts = (calibrations(model)["probability"].right(TAU) for model in (TINY, CHAT))
    tiny, chat = (f"{right / n:.0%}" for right, n in counts)
    said = f"score at least {TAU}, {tiny} have AR's token in `mars-tiny`, {chat} in the chat model"
    assert said in TEXTS["window"]
    follows = {row["method"]: row["checks"] for row in results.read_results("chat.json")["rows"]}
    said = f"follows {follows['AR']:.1%} of checked instructions, its base {follows['base']:.1%}"
    assert said in TEXTS["own-model"]


def test_what_cache_blocks_cost():
    def blocked(size: int) -> dict:
        return json.loads(recordings.batched(size))[0]

    def steps(size: int) -> list[list[str]]:
        return blocked(size)["steps"]

    def waits(size: int) -> int:
        return sum(step.count("wait") for step in steps(size))

    shares = {size: waits(size) / sum(map(len, steps(size))) for size in (4, 8, 16, 32, 64)}
    commits = sum("commit" in step for step in steps(4))
    assert f"{len(steps(4))} at 4, {commits} of them" in TEXTS["batches"]
    assert f"{sum(blocked(128)['positions']):,} from 128" in TEXTS["batches"]
    assert steps(128) == steps(256) and not any("commit" in step for step in steps(128))
    assert f"from {waits(4)} at 4 to {waits(128)} at 128" in TEXTS["batches"]
    assert max(shares, key=shares.get) == 32 and f"largest at 32, {shares[32]:.0%}" in TEXTS["batches"]
    _, own = json.loads(recordings.batched(128))
    assert f"{len(own['steps'])} forwards, {sum(own['positions']):,} positions" in TEXTS["batches"]
    assert f"each of the {len(steps(128))} forwards" in TEXTS["batches"]


MEASURED = [
    (paper_tables.OURS["speeds"][entry["file"]], method)
    for entry in ELEMENTS["cost"]["speeds"]
    for method in entry["methods"]
]


@pytest.mark.parametrize(("measured", "method"), MEASURED)
def test_sliders_at_the_means_of_a_method_show_its_measured_speed(measured, method):
    row = measured["rows"][method]
    positions, tokens = (float(row[f"{name} per forward"]) for name in ("positions", "tokens"))
    speed, calculation = tables.speed_up(measured, positions, tokens)
    assert speed == pytest.approx(float(row["as fast as AR"].partition("×")[0]), rel=0.1)
    assert calculation.endswith(f" = {speed:.2f}×")
    assert measured["costs"]["forwards"][-1][0] >= positions


def test_what_a_forward_of_nine_positions_costs():
    costs = {
        entry["title"]: dict(paper_tables.OURS["speeds"][entry["file"]]["costs"]["forwards"])
        for entry in ELEMENTS["cost"]["speeds"]
    }
    tiny, chat = (f"{cost[9] / cost[1]:.2f} times" for cost in costs.values())
    assert f"{tiny} as long as one in `mars-tiny`, {chat} in the chat model" in TEXTS["cost"]
    assert all(cost[1] < cost[2] < cost[9] for cost in costs.values())


def test_a_speed_up_counts_the_prompt_in_both():
    measured = {"tokens": 11, "costs": {"prompt": [30, 10.0], "forwards": [[1, 2.0], [9, 6.0]]}}
    assert tables.speed_up(measured, 1, 1) == (1, "(5.0 + 10.0) ÷ (5.0 + 10.0 · 1.00) = 1.00×")
    assert tables.speed_up(measured, 5, 2)[0] == pytest.approx(15 / (5 + 4.5 * 2))
    assert tables.speed_up(measured, 9, 40)[0] == 3  # a single forward


def test_the_trends_beside_the_paper():
    rows = results.read_results("paper.json")["rows"]

    def accuracy(method: str, decoding: str = "ar") -> float:
        chosen = [row["accuracy"] for row in rows if (row["method"], row["decoding"]) == (method, decoding)]
        return 100 * fmean(chosen)

    blocks = [f"MARS, B = {size}" for size in (4, 8, 16)]
    costs = [accuracy(block) - accuracy(block, "τ = 0.95") for block in blocks]
    gain = accuracy(blocks[0]) - accuracy("AR SFT")
    assert f"{min(costs):.1f} to {max(costs):.1f} here" in TEXTS["paper"]
    assert f"{-gain:.1f} fewer here" in TEXTS["paper"]
    one = {row["name"]: row["Avg"] for row in tables.PAPER["table3_sft_loss"]}
    large = {row["name"]: row["accuracy"]["Avg"] for row in tables.PAPER["table4_multi_token"]}
    losses = [one[name] - large[name] for name in (f"7B {block}" for block in blocks)]
    assert f"costs {min(losses):.1f} to {max(losses):.1f} points" in TEXTS["paper"]
    speeds = [row["speedup"] for row in tables.PAPER["table5_batch_wall_clock"]]
    assert f"{min(speeds):.2f} (no cache, 16 at once) to {max(speeds):.2f} times" in TEXTS["paper"]
    loss = accuracy(blocks[0]) - accuracy("MARS without SFT loss, B = 4")
    assert f"loses {loss:.1f} points at B = 4" in TEXTS["sft-loss"]


def test_blocks_are_chosen_by_the_results_of_the_paper_and_ours():
    theirs = {row["name"]: f"{row['Avg']:.1f}" for row in tables.PAPER["table3_sft_loss"]}
    several = {row["name"]: row for row in tables.PAPER["table4_multi_token"]}
    ours = {name: [*row.values()] for number in (3, 4) for name, row in tables_here(number).items()}
    for name, *cells in ELEMENTS["choosing"]["rows"]:
        method = "AR SFT" if "AR" in name else f"MARS, {name}"
        expected = []
        for scale in ("0.5B", "7B"):
            row = several.get(f"{scale} {method}")
            expected += [theirs[f"{scale} {method}"]]
            expected += [f"{row[key]['Avg']:.{digits}f}" for key, digits in KEYS] if row else ["–", "1.00"]
        one, more = ours[method], ours.get(f"{method}, τ = 0.95")
        expected += [mean(one[1]), *([mean(more[1]), mean(more[2])] if more else ["–", "1.00"])]
        assert cells == expected


KEYS = (("accuracy", 1), ("tokens_per_forward", 2))


def mean(cell: str) -> str:
    return cell.partition(" ")[0]


def tables_here(number: int) -> dict[str, dict]:
    frame = paper_tables.here(number).frame
    return {row[frame.columns[0]]: row for row in frame.to_dict("records")}
