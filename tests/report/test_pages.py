"""What commands show, as text: whole at every width, with negative rewards and five groups; verdicts in words."""
# pyright: reportArgumentType=false

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from elbert.envs import ENTRIES, describe
from elbert.experiments.compare import Compared, Comparison
from elbert.experiments.results import BestPossible
from elbert.experiments.run_folder import RunFolder, RunSummary
from elbert.experiments.settings_in_use import settings_in_use
from elbert.fairness.bias_inference import BiasTest
from elbert.learning.result import Bias, CriterionResult, GroupRate, Mean, Result
from elbert.report.pages import (
    coefficients_page,
    comparison_page,
    presets_page,
    result_page,
    runs_page,
    settings_page,
    worlds_page,
)
from elbert.tables import as_text

WIDTHS = (60, 80, 110, 200)
GROUPS = tuple(
    GroupRate(name, 0.1234 * i, (0.1234 * i - 0.0111, 0.1234 * i + 0.0111), 10.5 * i, 100.25)
    for i, name in enumerate(("north", "north-east", "harbour", "old town", "airport"), start=1)
)
RESULT = Result(
    env="attention-harder",
    method="elbert-po",
    episodes=128,
    horizon=1024,
    reward=Mean(-1.97823, (-2.01234, -1.94412)),
    criteria=(CriterionResult("discovery rate", Bias(0.03881, 0.03777, (0.01642, 0.06123), 0.00207), GROUPS),),
    train_seconds=1273.2,
    limit=BiasTest(max_bias=0.02, verdict="refuted", p_refute=0.00012, p_confirm=1.0),
)
SEVERAL = replace(RESULT, seeds=(replace(RESULT, seed=0), replace(RESULT, seed=1)))
NAMES = ("attention-harder-elbert-po-12", "attention-harder-g-ppo-1")
NUMBERS = ("-1.9782", "-2.0123", "-1.9441", "0.0388", "0.0164", "0.0612")
RATES = ("0.123", "0.247", "0.370", "0.494", "0.617")
RUN = RunSummary(
    path=Path("runs/attention-harder-elbert-po-12"),
    env="attention-harder",
    method="elbert-po",
    seeds=(0, 1, 2, 7),
    status="interrupted",
    iteration=120,
    iterations=318,
    seconds=1273.2,
    reward=-1.97823,
    bias=0.03881,
    coefficients={"alpha": 20_000.0},
)


def compared():
    best = BestPossible(reward=-1.9, exact=False, share=None, short=0.07823, parameters={})
    return Comparison("attention-harder", tuple(Compared(name, RESULT, best, RunFolder(Path(name))) for name in NAMES))


PAGES = {
    "evaluate": (
        lambda: result_page(RESULT),
        (*NUMBERS, "0.0378", "refuted", "0.0021", "0.6170", "harbour", "north-east", "52.5", "100.2"),
    ),
    "evaluate, several seeds": (lambda: result_page(SEVERAL), (*NUMBERS, "refuted", "airport")),
    "compare": (
        lambda: comparison_page(compared()),
        (*NAMES, *NUMBERS, *RATES, "0.0378", "refuted", "0.0782", "1273"),
    ),
    "sweep": (
        lambda: coefficients_page({"alpha=1000": SEVERAL, "alpha=20000": SEVERAL}),
        ("alpha=1000", "alpha=20000", *NUMBERS, *RATES, "refuted"),
    ),
    "runs": (
        lambda: runs_page([RUN, replace(RUN, path=Path("runs/lending-g-ppo-1"), status="finished")]),
        (str(RUN.path), "runs/lending-g-ppo-1", "alpha=20000", "0-2,", "120/318", "-1.9782", "0.0388", "finished"),
    ),
    "envs": (
        lambda: worlds_page([describe(ENTRIES[name]) for name in ("lending", "attention-harder")]),
        ("lending", "attention-harder", "elbert/AttentionHarder-v0", "discovery-probability", "2048"),
    ),
    "presets": (lambda: presets_page("fast"), ("infectious-harder", "20000000", "r-ppo:", "penalty_form", "[128]")),
    "presets ENV": (
        lambda: settings_page(settings_in_use("attention-harder")),
        ("20000", "elbert-po", "bootstrap_at_truncation", "1e-05", "[defaults]", "initial_deviation"),
    ),
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_cut_or_lost_at_any_width(name, width):
    page, words = PAGES[name]
    lines = as_text(page(), width).splitlines()
    assert max(len(line) for line in lines) <= width
    shown = " ".join(lines).split()
    for word in words:
        assert word in shown, f"{word} is cut or missing at {width} columns:\n" + "\n".join(lines)
    assert "\u2026" not in "".join(lines)


def test_an_evaluation_at_80_columns():
    below = replace(RESULT.criteria[0].bias, estimate=0.0011, debiased=-0.0009, ci=(0.0, 0.0031))
    limit = BiasTest(max_bias=0.02, verdict="confirmed", p_refute=1.0, p_confirm=0.00012)
    result = replace(RESULT, criteria=(replace(RESULT.criteria[0], bias=below),), limit=limit)
    assert as_text(result_page(result), 80).splitlines()[:14] == [
        "elbert-po on attention-harder: 128 episodes of up to 1024 steps",
        "reward per step  -1.9782    -2.0123 .. -1.9441  95 % interval",
        "observed bias    0.0011                         expected from noise alone:",
        "                                                0.0021",
        "debiased         -0.0009    0.0000 .. 0.0031    below 0: equal groups would",
        "                                                differ more by chance",
        "bias <= 0.02     confirmed  p = 0.00012",
        "",
        "discovery rate",
        "",
        " group         rate     95 % interval  supply / step  demand / step",
        " ──────────────────────────────────────────────────────────────────",
        " north       0.1234  0.1123 .. 0.1345           10.5          100.2",
        " north-east  0.2468  0.2357 .. 0.2579             21          100.2",
    ]


def test_a_comparison_at_80_columns():
    assert as_text(comparison_page(compared()), 80).splitlines()[1:13] == [
        " run            attention-harder-elbert-po-12       attention-harder-g-ppo-1",
        " ───────────────────────────────────────────────────────────────────────────",
        " method                             elbert-po                      elbert-po",
        " reward / step                        -1.9782                        -1.9782",
        " 95 % interval             -2.0123 .. -1.9441             -2.0123 .. -1.9441",
        " of best                         0.0782 below                   0.0782 below",
        " observed bias                         0.0388                         0.0388",
        " debiased                              0.0378                         0.0378",
        " 95 % interval               0.0164 .. 0.0612               0.0164 .. 0.0612",
        " limit                                refuted                        refuted",
        " rates          0.123 0.247 0.370 0.494 0.617  0.123 0.247 0.370 0.494 0.617",
        " seconds                                 1273                           1273",
    ]


def test_a_comparison_at_60_columns():
    assert as_text(comparison_page(compared()), 60).splitlines()[:12] == [
        "attention-harder-elbert-po-12",
        "  method         elbert-po",
        "  reward / step  -1.9782",
        "  95 % interval  -2.0123 .. -1.9441",
        "  of best        0.0782 below",
        "  observed bias  0.0388",
        "  debiased       0.0378",
        "  95 % interval  0.0164 .. 0.0612",
        "  limit          refuted",
        "  rates          0.123 0.247 0.370 0.494 0.617",
        "  seconds        1273",
        "",
    ]


def test_runs_at_110_columns():
    run = replace(RUN, path=Path("runs/lending-elbert-po-1"), env="lending", coefficients={})
    text = as_text(runs_page([run, replace(run, status="finished", evaluated=True)]), 110)
    assert [" ".join(line.split()) for line in text.splitlines()][4:6] == [
        "runs/lending-elbert-po-1 lending elbert-po 0-2, 7 interrupted at 120/318 1273 -1.9782 * 0.0388 *",
        "runs/lending-elbert-po-1 lending elbert-po 0-2, 7 finished 1273 -1.9782 0.0388",
    ]
    assert text.endswith("* of the last rollout in training, not of an evaluation")


def test_the_interval_stands_next_to_the_number_that_it_belongs_to():
    def cells(result):
        page = comparison_page(Comparison("lending", (Compared("it", result, None, None),)))
        return as_text(page, 200).splitlines()[3].split()

    single, several = cells(RESULT), cells(SEVERAL)
    assert single[single.index("0.0164") - 1] == "0.0378", "of one policy: the debiased bias"
    assert several[several.index("0.0164") - 1] == "0.0388", "over seeds: the mean observed bias"


@pytest.mark.parametrize(
    ("verdict", "colour"), [("confirmed", "\x1b[32m"), ("refuted", "\x1b[1;31m"), ("not refuted", "\x1b[33m")]
)
def test_verdicts_are_coloured_and_in_words(verdict, colour):
    result = replace(RESULT, limit=BiasTest(max_bias=0.02, verdict=verdict))
    for page in (result_page(result), coefficients_page({"alpha=1": result, "alpha=2": result})):
        terminal = io.StringIO()
        Console(file=terminal, width=160, force_terminal=True, color_system="standard", no_color=False).print(page)
        assert f"{colour}{verdict}" in terminal.getvalue()
        assert verdict in as_text(page)
        assert "\x1b" not in as_text(page)
