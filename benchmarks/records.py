"""What must not change when the inside does: digests of small trainings, exact results, evaluations.

    python benchmarks/records.py before.json                     record
    python benchmarks/records.py after.json --against before.json   record, and compare with an earlier record

Bits depend on the machine and on the versions of JAX: compare records that were made on one machine. An earlier version
of elbert can be recorded with its `src` on PYTHONPATH.
"""

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault(  # compiles in a third of the time; what matters is that both records are made alike
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
    # jaxlib 0.11.2 no longer knows this flag, and ends a process that gives it
    + (" --xla_cpu_use_fusion_emitters=false" if version("jaxlib").startswith("0.10.") else ""),
)
sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import numpy as np
from examples.own_environment import make
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import elbert

SMALL: dict[str, Any] = {"steps": 4 * 64 * 6, "copies": 4, "rollout": 64, "minibatch": 64, "epochs": 2}
HOST: dict[str, Any] = {"steps": 4 * 60 * 3, "copies": 4, "rollout": 60, "minibatch": 60, "epochs": 2}
SHORT: dict[str, Any] = {"horizon": 50}
TIMES = ("train_seconds", "seconds")


def trained(env: Any, *, evaluated: bool = False, **how: Any) -> dict[str, Any]:
    """Digests of the agents' weights, and the first one's evaluation."""
    agents = elbert.train_many(env, **how)
    record: dict[str, Any] = {"agents": [digest((*a.policy, a.scale)) for a in agents]}
    if evaluated:
        result = agents[0].evaluate(20, seed=3).to_dict()
        record["evaluation"] = {key: value for key, value in result.items() if key not in TIMES}
    return record


def digest(tree: Any) -> str:
    """Of all arrays in a tree."""
    found = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        array = np.asarray(leaf)
        found.update(f"{array.shape}{array.dtype}".encode() + array.tobytes())
    return found.hexdigest()[:16]


def cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every method, compiled and host, with and without a limit, several seeds; settings that change the program."""
    in_short: dict[str, Any] = {"world": SHORT, **SMALL}
    for method in ("elbert-po", "g-ppo", "r-ppo", "a-ppo"):
        for env in ("lending", "attention-harder"):
            yield f"{env} {method}", lambda m=method, e=env: trained(e, seeds=2, method=m, evaluated=True, **in_short)
        yield (
            f"lending paper {method}",
            lambda m=method: trained("lending", seeds=1, method=m, preset="paper", **in_short),
        )
        own = {"alpha": 100.0} if method == "elbert-po" else {}
        yield f"host {method}", lambda m=method, o=own: trained(make, seeds=1, method=m, **o, **HOST)
    yield "infectious-harder", lambda: trained("infectious-harder", seeds=1, evaluated=True, **SMALL)
    options: dict[str, dict[str, Any]] = {
        "limit": {"max_bias": 0.05},
        "limits": {"grid": {"max_bias": [0.02, 0.1]}},
        "limit and demand": {"max_bias": 0.05, "demand_weight": (0.5, -0.5)},
        "grid": {"grid": {"alpha": [0.0, 1e3, 1e5]}},
        "minibatch": {"standardise": "per-signal", "standardise_over": "minibatch"},
        "separate critics": {"critic": "separate", "scale_values": False, "normalise_observations": False},
        "restarts": {"reset_each_rollout": True, "bootstrap_at_truncation": False, "eta_discount": 0.99},
    }
    for name, option in options.items():
        yield f"lending {name}", lambda o=option: trained("lending", seeds=2, **o, **in_short)
    odds = {"world": SHORT | {"notion": "equalized-odds"}, **SMALL}
    yield "lending two criteria", lambda: trained("lending", seeds=1, max_bias=0.1, evaluated=True, **odds)
    for mode in AutoresetMode:
        yield f"host {mode.name}", lambda m=mode: in_vector(m)
    yield "frontier lending", lambda: elbert.frontier("lending", max_bias=[0.0, 0.02, 0.1], horizon=200).to_dict()
    yield "frontier attention", lambda: elbert.frontier("attention", max_bias=[0.05]).to_dict()


def in_vector(mode: AutoresetMode) -> dict[str, Any]:
    """A user's vector environment that resets in one of Gymnasium's ways."""
    env = SyncVectorEnv([make] * 4, autoreset_mode=mode)
    try:
        return trained(env, seeds=1, alpha=100.0, steps=720, rollout=61, minibatch=60, epochs=2)
    finally:
        env.close()


def main() -> None:
    """Record, and say what differs from an earlier record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--against", type=Path)
    given = parser.parse_args()
    records: dict[str, Any] = {}
    for name, case in cases():
        begun = time.monotonic()
        records[name] = json.loads(json.dumps(case()))
        print(f"{time.monotonic() - begun:6.1f} s  {name}", flush=True)
    given.out.write_text(json.dumps(records, indent=1) + "\n")
    if given.against is not None:
        before = json.loads(given.against.read_text())
        changed = [name for name in records if records[name] != before.get(name)]
        print(f"{len(records) - len(changed)} of {len(records)} the same", *changed, sep="\n  ")
        sys.exit(bool(changed))


if __name__ == "__main__":
    main()
