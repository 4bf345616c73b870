"""Names that people bring from other libraries, answered with ours."""

from collections.abc import Mapping
from typing import Any

from elbert.errors import InvalidInputError

RENAMED = {
    "total_timesteps": "steps",
    "timesteps": "steps",
    "num_timesteps": "steps",
    "n_envs": "copies",
    "num_envs": "copies",
    "n_steps": "rollout",
    "num_steps": "rollout",
    "rollout_length": "rollout",
    "n_epochs": "epochs",
    "num_epochs": "epochs",
    "update_epochs": "epochs",
    "batch_size": "minibatch",
    "minibatch_size": "minibatch",
    "lr": "learning_rate",
    "learning_rate_schedule": "anneal",
    "lr_schedule": "anneal",
    "anneal_lr": "anneal",
    "discount": "gamma",
    "lam": "gae_lambda",
    "clip_range": "clip",
    "clip_coef": "clip",
    "clip_epsilon": "clip",
    "ent_coef": "entropy_weight",
    "entropy_coef": "entropy_weight",
    "vf_coef": "value_weight",
    "value_coef": "value_weight",
    "max_grad_norm": "gradient_clip",
    "normalize_advantage": "standardise",
    "norm_adv": "standardise",
    "net_arch": "hidden",
    "activation_fn": "activation",
    "normalize_observations": "normalise_observations",
    "bias_limit": "max_bias",
    "limit": "max_bias",
    "delta": "max_bias",
}
"""Their name of a setting -> ours."""

ANSWERED = {
    "policy_kwargs": "Networks are set by hidden (widths of the layers), activation, critic and policy.",
    "verbose": "What is shown while it trains is said by progress in Python; --json silences the command line's table.",
    "device": "JAX chooses it: set the environment variable JAX_PLATFORMS, for example to cpu.",
    "callback": "Functions that are called after every iteration are given as a list: callbacks=[...].",
    "tensorboard_log": "Give tensorboard=FOLDER, or tensorboard=True with out=; --tensorboard in a shell.",
    "target_kl": "There is no such stop: epochs sets the number of passes over a rollout.",
    "clip_range_vf": "The value loss is not clipped here: scale_values keeps values in proportion instead.",
    "notion": 'It is a parameter of the world: world={"notion": ...} in Python, --world notion=... in a shell.',
    "horizon": 'It is a parameter of the world: world={"horizon": ...} in Python, --world horizon=... in a shell.',
    "max_episode_steps": 'It is the horizon: world={"horizon": ...} in Python, --world horizon=... in a shell.',
    "seed": "Here several are given: seeds is how many, or a list such as seeds=[3]. elbert.train takes one seed.",
}
"""What is no setting here, and what to use in its place."""


def refuse_brought(name: str) -> None:
    """Refuse a name from elsewhere with what it is called here; other names pass."""
    if name in RENAMED:
        raise InvalidInputError(f"No setting is called {name!r}. It is {RENAMED[name]!r} here.")
    if name in ANSWERED:
        raise InvalidInputError(f"No setting is called {name!r}. {ANSWERED[name]}")


def refuse_many(settings: Mapping[str, Any]) -> None:
    """Refuse what `elbert.train`, which makes one agent, cannot take."""
    for name in ("seeds", "grid"):
        if name in settings:
            pair = f"{name}={settings[name]!r}"
            raise InvalidInputError(
                f"elbert.train makes one agent and takes one seed=..., but {pair} was given. To train several side by "
                f"side, use elbert.train_many(..., {pair}), which returns a list."
            )
