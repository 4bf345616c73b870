"""Draw the pictures of the worlds that the pages in docs/environments show, and the frontier of docs/frontier.md.

    python docs/pictures.py

docs/data/main.json is what `elbert reproduce main --seeds 3` wrote.
"""

import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gymnasium
import numpy as np
from PIL import Image

import elbert
from elbert.envs import ENTRIES
from elbert.files import write_whole
from elbert.report.charts import Point
from elbert.report.frontier import write_frontier

Policy = Callable[[Any], Any]


def accept_from_score_two(observation: Any) -> int:
    """Lending: accept the upper five of seven scores."""
    return int(np.argmax(observation[:7]) >= 2)


def identical_first(_: Any) -> Any:
    """Waiting list: organs to their own blood group, then to others."""
    return np.asarray([1.0, 0.75, 0.5, 0.25], np.float32)


def accept_from_620(observation: Any) -> int:
    """Credit: accept from 620 points on."""
    return int(observation[0] >= (620 - 300) / 550)


def first_susceptible(observation: Any) -> int:
    """Infectious disease: vaccinate the susceptible person of the highest number, or nobody."""
    susceptible = np.flatnonzero(observation.reshape(-1, 3)[:, 0])
    return int(susceptible[-1]) if len(susceptible) else 34


def by_incidents(observation: Any) -> Any:
    """Attention: more for the sites that had more incidents in the last step."""
    return np.log1p(observation.reshape(8, 4, 5)[-1, 1]) - 1


def by_record(observation: Any) -> int:
    """Patrol: the urn, with the same draws in every picture."""
    record = observation.reshape(4, -1)[0]
    return int(DRAWS.choice(len(record), p=record / record.sum()))


def a_threshold(_: Any) -> Any:
    """Admission: the same in every round."""
    return np.asarray([0.7], np.float32)


DRAWS = np.random.default_rng(0)

SHOTS: dict[str, tuple[Policy, int]] = {
    "lending": (accept_from_score_two, 600),
    "infectious": (first_susceptible, 2),
    "infectious-harder": (first_susceptible, 4),
    "attention": (by_incidents, 12),
    "attention-harder": (by_incidents, 200),
    "patrol": (by_record, 600),
    "admission": (a_threshold, 40),
    "credit": (accept_from_620, 1000),
    "waiting-list": (identical_first, 200),
}
"""World -> a simple policy, and after how many of its steps the picture is taken."""


def main() -> None:
    """Write docs/images/NAME.png for every world."""
    for name, (policy, steps) in SHOTS.items():
        env = gymnasium.make(ENTRIES[name].id, render_mode="rgb_array")
        observation, _ = env.reset(seed=3)
        for _ in range(steps):
            observation, *_ = env.step(policy(observation))
        buffer = BytesIO()
        Image.fromarray(np.asarray(env.render())).save(buffer, format="png")
        write_whole(Path(__file__).parent / "images" / f"{name}.png", buffer.getvalue())
        print(f"docs/images/{name}.png")


def frontier() -> None:
    """Write docs/images/frontier-lending.png: what docs/data/main.json holds of lending, beside the best possible."""
    here = Path(__file__).parent
    rows = [row for row in json.loads((here / "data" / "main.json").read_text())["rows"] if row["env"] == "lending"]
    ours = [
        Point(row["label"], row["bias"]["estimate"], row["reward"]["mean"], row["bias"]["ci"], row["reward"]["ci"])
        for row in rows
    ]
    theirs = [Point(row["label"], row["published"]["bias"], row["published"]["reward"]) for row in rows]
    with TemporaryDirectory() as folder:
        written = write_frontier(elbert.frontier("lending"), Path(folder), points=ours, theirs=theirs)
        picture = next(path for path in written if path.suffix == ".png")
        write_whole(here / "images" / picture.name, picture.read_bytes())
    print(f"docs/images/{picture.name}")


if __name__ == "__main__":
    print(f"elbert {elbert.__version__}")
    main()
    frontier()
