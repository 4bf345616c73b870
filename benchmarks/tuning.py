"""What was tried before the methods with a limit were compared: the same budget for each of them.

    python benchmarks/tuning.py [METHOD ...]

One number of each method, four values, in three worlds with a limit of 0.05, trained side by side from a seed that no
table shows, for a part of the preset's steps. docs/benchmark.md shows what came of it and which value was kept.
"""

import sys

import elbert

VALUES = {
    "lagrangian": ("dual_rate", (0.003, 0.01, 0.03, 0.1)),
    "band": ("side_rate", (0.02, 0.05, 0.1, 0.2)),
    "focops": ("multiplier_rate", (0.01, 0.03, 0.1, 0.3)),
    "cpo": ("region", (0.003, 0.01, 0.03, 0.1)),
}
WORLDS = {"lending": 5_000_000, "infectious-harder": 800_000, "attention-harder": 1_000_000}
LIMIT, SEED = 0.05, 20


def main() -> None:
    """Print a line per method, world and value."""
    for method in sys.argv[1:] or VALUES:
        name, values = VALUES[method]
        for world, steps in WORLDS.items():
            agents = elbert.train_many(
                world, method=method, seeds=[SEED], grid={name: list(values)}, max_bias=LIMIT, steps=steps
            )
            for value, agent in zip(values, agents, strict=True):
                result = elbert.evaluate(agent, seed=SEED)
                bias, limit = result.worst.bias, result.limit
                assert limit is not None
                print(
                    f"{method:11} {world:18} {name} = {value:<6g} reward {result.reward.mean:8.4f}"
                    f"  bias {bias.estimate:.4f}  {limit.verdict}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
