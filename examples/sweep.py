"""How much reward does a smaller bias cost? Several coefficients side by side, and their trade-off.

python examples/sweep.py [--steps 4000000] [--out sweep]
"""

import argparse
from pathlib import Path

import elbert

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4_000_000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--out", type=Path, default=Path("sweep"))
    options = parser.parse_args()
    elbert.train_many(
        "lending",
        seeds=options.seeds,
        grid={"alpha": [1e3, 1e4, 1e5]},
        steps=options.steps,
        out=options.out,
        resume=True,
    )
    comparison = elbert.compare({"alpha": options.out}, episodes=options.episodes)
    print(comparison)
    comparison.plot().savefig(options.out / "trade-off.png")
