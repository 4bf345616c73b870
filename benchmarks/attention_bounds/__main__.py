"""Find and store what proves the upper bounds of attention, and schedules below them.

python -m benchmarks.attention_bounds prices [STEPS]      for all policies
python -m benchmarks.attention_bounds limits [STEPS]      for policies with a limit on the bias
python -m benchmarks.attention_bounds schedules [ROUNDS]  schedules within the limits
python -m benchmarks.attention_bounds bounds              the bounds themselves, for pictures and comparisons

Each starts from what is stored. Any prices and multipliers prove a bound, better ones a lower one. With 300 steps the
prices of the harder world take a quarter of an hour on one slow core; 20 steps for each of its limits take ten minutes.
Prices are stored by the steps that remain, from none to the whole horizon; those of limits are stored at knots.

For a world with other parameters, call `prices.best_bound(world)`: its prices prove a bound with
`elbert.exact.attention.bound_at(world, prices)`.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from benchmarks.attention_bounds.multipliers import Search
from benchmarks.attention_bounds.prices import STEPS, best_bound
from benchmarks.attention_bounds.schedules import as_text, improve, look_ahead, worth_of
from elbert.envs.attention import Attention
from elbert.envs.registry import ENTRIES
from elbert.exact import attention
from elbert.exact.attention import stored_bound, stored_prices
from elbert.exact.attention_limits import (
    Box,
    Multipliers,
    Proof,
    fair_bound,
    schedule_totals,
    stored_proofs,
    stored_schedules,
)
from elbert.exact.finite import Array
from elbert.files import write_whole

NAMES = ("attention", "attention-harder")
PATH = Path(attention.__file__).with_name("attention_prices.json")
FAIR = PATH.with_name("fair_attention.json")
HORIZON = attention.STORED_HORIZON
LIMITS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.0)
SCHEDULES = (0.2, 0.1, 0.05, 0.02, 0.01, 0.001)
BOUNDS = (0.0, 0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2)
LIMITED = ("attention-harder",)
"""In attention the multipliers that we found lower the bound by less than 0.001 even without any bias."""
MIDDLE, FALLS = (0.5, 0.66), (1 / 2, 1 / 3)
"""The lowest rates where most can be reached: without bias, and how far the ends fall per unit of it."""
KNOTS = np.unique([*range(0, 16, 4), *range(16, 400, 16), *range(400, 992, 32), *range(992, 1024, 4), 1023])
"""Steps between which prices are linear: fewer where a unit is worth next to nothing."""


def prices(steps: int) -> None:
    """Go on from what is stored, and print what is proven and reached."""
    stored = json.loads(PATH.read_text()) if PATH.exists() else {}
    for name in NAMES:
        world = _world(name)
        first = np.array(stored[name][:0:-1]) if name in stored else None
        found, bound, schedule = best_bound(world, steps=steps, prices=first)
        reward = schedule_totals(world, schedule).reward
        print(f"{name}: no policy exceeds {bound.value / HORIZON:.5f}; a schedule reaches {reward / HORIZON:.5f}")
        stored[name] = [round(float(price), 6) for price in (0.0, *found[::-1])]
        write_whole(PATH, json.dumps(stored))


def limits(steps: int) -> None:
    """Multipliers for every limit, from the largest down, each from the better of the stored and the last ones."""
    content = json.loads(FAIR.read_text()) if FAIR.exists() else {}
    for name in LIMITED:
        world = _world(name)
        stored = {proof.max_bias: proof for proof in stored_proofs(world)} if name in content else {}
        search = Search(world, KNOTS.astype(float))
        centre = _point(search, stored_prices(world), np.zeros(world.groups), np.zeros(world.groups))
        rows = []
        for max_bias in LIMITS:
            middle = Box(*(round(end - fall * max_bias, 6) for end, fall in zip(MIDDLE, FALLS, strict=True)))
            before = [_point(search, *found) for _, found in stored[max_bias].parts] if max_bias in stored else []
            starts = [centre, *before[:1]]
            centre = min(starts, key=lambda at, d=max_bias, box=middle: search.asked(d, box, at))
            value, centre, proof = search.proof(max_bias, middle, centre, steps=steps, outer=before[1:])
            print(f"{name}: no policy with a bias of at most {max_bias:g} exceeds {value / HORIZON:.5f}", flush=True)
            rows.append(_row(search, proof))
        content.setdefault(name, {})["multipliers"] = {"knots": KNOTS.tolist(), "limits": rows}
        write_whole(FAIR, json.dumps(content))


def bounds(_: int) -> None:
    """What all that is stored proves, limit by limit."""
    content = json.loads(FAIR.read_text())
    for name in NAMES:
        world = _world(name)
        rows = [[max_bias, fair_bound(world, max_bias).value] for max_bias in BOUNDS if name in LIMITED]
        content[name]["bounds"] = [*rows, [None, stored_bound(world).value]]
        print(name, [(max_bias, round(value / HORIZON, 5)) for max_bias, value in content[name]["bounds"]])
        write_whole(FAIR, json.dumps(content))


def schedules(rounds: int) -> None:
    """Schedules within every limit, from the stored ones and from those that look ahead with the multipliers."""
    content = json.loads(FAIR.read_text())
    for name in NAMES:
        world = _world(name)
        known = [schedule for _, schedule in stored_schedules(world)]
        proofs = stored_proofs(world)
        none = np.zeros(world.groups)
        kept = []
        for max_bias in SCHEDULES:
            usable = [proof.parts[0] for proof in proofs if proof.max_bias <= max_bias]
            box, found = usable[-1] if usable else (Box(0.27, 0.33), Multipliers(stored_prices(world), none, none))
            known.append(look_ahead(world, max_bias, sum(box) / 2, found, rounds=14)[0])
            best = max(known, key=lambda units, w=world, d=max_bias: worth_of(schedule_totals(w, units), HORIZON, d))
            best = improve(world, best, max_bias, rounds=rounds)
            known.append(best)
            totals = schedule_totals(world, best)
            print(f"{name}: {totals.reward / HORIZON:.5f} with a bias of {totals.bias:.5f}", flush=True)
            kept += [as_text(best)] if totals.bias <= max_bias else []
        content.setdefault(name, {})["schedules"] = kept
        write_whole(FAIR, json.dumps(content))


def _world(name: str) -> Attention:
    world = ENTRIES[name].make(horizon=HORIZON)
    assert isinstance(world, Attention)
    return world


def _point(search: Search, prices: Array, least: Array, most: Array) -> Array:
    return np.concatenate([np.linalg.lstsq(search.hats, prices, rcond=None)[0], least, most])


def _row(search: Search, proof: Proof) -> dict[str, object]:
    boxes = []
    for box, found in proof.parts:
        at = _point(search, *found)
        count, sites = search.hats.shape[1], len(search.sites)
        numbers = [[round(float(x), 6) for x in part] for part in np.split(at, [count, count + sites])]
        boxes.append({"box": list(box), **dict(zip(("prices", "a", "b"), numbers, strict=True))})
    return {"max_bias": proof.max_bias, "boxes": boxes}


if __name__ == "__main__":
    kinds = {"prices": (prices, STEPS), "limits": (limits, 20), "schedules": (schedules, 1000), "bounds": (bounds, 0)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=kinds, nargs="?", default="prices")
    parser.add_argument("effort", type=int, nargs="?", help="number of steps or rounds")
    options = parser.parse_args()
    run, usual = kinds[options.kind]
    run(usual if options.effort is None else options.effort)
