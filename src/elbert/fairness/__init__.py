"""What long-term fairness is: rates, bias, penalties, notions and their statistics.

This room knows no environment, no network and no file: arrays of supply and demand are all it needs. The modules:

- `rates`: totals, benefit rates, bias, impact ratio, soft bias.
- `penalties`: the penalty h of rates and its slope.
- `notions`: from decisions about people to supply and demand.
- `stepwise`: the step-wise notions of the earlier literature, to compare with.
- `episode_totals`, `rate_intervals`: rates from per-episode totals, with intervals.
- `true_range`, `bias_inference`: how far apart the rates truly are, and whether that is within a limit.
- `benefit_report`: all of it in one result object.
"""

from elbert.fairness.arrays import Array, ArrayLike
from elbert.fairness.benefit_report import BenefitReport, CriterionBenefit, GroupBenefit, benefit_report
from elbert.fairness.bias_inference import (
    BiasEstimate,
    BiasTest,
    ImpactRatioEstimate,
    bias_limit_test,
    estimate_bias,
    estimate_impact_ratio,
)
from elbert.fairness.episode_totals import EpisodeTotals, NotEstimable
from elbert.fairness.notions import (
    ACCURACY_PARITY,
    DEMOGRAPHIC_PARITY,
    DISCOVERY_PROBABILITY,
    EQUAL_OPPORTUNITY,
    EQUALIZED_ODDS,
    NOTIONS,
    Criterion,
    Notion,
    get_notion,
    register_notion,
)
from elbert.fairness.penalties import Penalty, penalty_slope, squared_bias
from elbert.fairness.rate_intervals import MeanEstimate, RateEstimates, estimate_rates, mean_interval
from elbert.fairness.rates import (
    Totals,
    benefit_rate,
    bias,
    centred_soft_bias,
    impact_ratio,
    long_term_benefit_rate,
    ratio,
    soft_bias,
    totals,
)
from elbert.fairness.stepwise import decision_weights, stepwise_difference, stepwise_squared_difference

__all__ = [
    "ACCURACY_PARITY",
    "DEMOGRAPHIC_PARITY",
    "DISCOVERY_PROBABILITY",
    "EQUALIZED_ODDS",
    "EQUAL_OPPORTUNITY",
    "NOTIONS",
    "Array",
    "ArrayLike",
    "BenefitReport",
    "BiasEstimate",
    "BiasTest",
    "Criterion",
    "CriterionBenefit",
    "EpisodeTotals",
    "GroupBenefit",
    "ImpactRatioEstimate",
    "MeanEstimate",
    "NotEstimable",
    "Notion",
    "Penalty",
    "RateEstimates",
    "Totals",
    "benefit_rate",
    "benefit_report",
    "bias",
    "bias_limit_test",
    "centred_soft_bias",
    "decision_weights",
    "estimate_bias",
    "estimate_impact_ratio",
    "estimate_rates",
    "get_notion",
    "impact_ratio",
    "long_term_benefit_rate",
    "mean_interval",
    "penalty_slope",
    "ratio",
    "register_notion",
    "soft_bias",
    "squared_bias",
    "stepwise_difference",
    "stepwise_squared_difference",
    "totals",
]
