"""A policy trained elsewhere: a stable-baselines3 model, judged in one call.

pip install stable-baselines3
python examples/judge_sb3_model.py [--steps 20000]
"""

import argparse

from four_groups import longest_queue, make
from stable_baselines3 import PPO

import elbert

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--episodes", type=int, default=200)
    options = parser.parse_args()
    model = PPO("MlpPolicy", make(), n_steps=512, seed=0).learn(options.steps)
    evaluation = elbert.evaluate(model, env=make, episodes=options.episodes, max_bias=0.05)
    print(evaluation)
    print(elbert.compare({"PPO": model, "longest queue": longest_queue}, env=make, episodes=options.episodes))
