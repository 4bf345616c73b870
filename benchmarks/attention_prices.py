"""Find and store the prices behind the upper bounds of attention; any prices prove a bound, better ones a lower one.

python benchmarks/attention_prices.py [STEPS]

Starts from the stored prices. Some 300 steps for the harder world take a quarter of an hour on one slow core. Prices
are stored by the steps that remain, from none to the whole horizon.
"""

import json
import sys
from pathlib import Path

import numpy as np

from elbert.envs.attention import Attention
from elbert.envs.registry import ENTRIES
from elbert.exact import attention
from elbert.files import write_whole

PATH = Path(attention.__file__).with_name("attention_prices.json")


def main(steps: int) -> None:
    """Go on from what is stored, and print what is proven and reached."""
    stored = json.loads(PATH.read_text()) if PATH.exists() else {}
    for name in ("attention", "attention-harder"):
        world = ENTRIES[name].make(horizon=attention.STORED_HORIZON)
        assert isinstance(world, Attention)
        first = np.array(stored[name][:0:-1]) if name in stored else None
        prices, bound, schedule = attention.best_bound(world, steps=steps, prices=first)
        totals = attention.schedule_totals(world, schedule)
        horizon = attention.STORED_HORIZON
        print(
            f"{name}: no policy exceeds {bound.value / horizon:.5f}; a schedule reaches {totals.reward / horizon:.5f}"
        )
        stored[name] = [round(float(price), 6) for price in (0.0, *prices[::-1])]
        write_whole(PATH, json.dumps(stored))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else attention.STEPS)
