"""What long-term fairness is: rates, bias, penalties, notions and their statistics.

This room knows no environment, no network and no file: arrays of supply and demand are all it needs.
"""

from elbert.fairness.arrays import Array as Array
from elbert.fairness.arrays import ArrayLike as ArrayLike
from elbert.fairness.benefit_report import BenefitReport as BenefitReport
from elbert.fairness.benefit_report import CriterionBenefit as CriterionBenefit
from elbert.fairness.benefit_report import GroupBenefit as GroupBenefit
from elbert.fairness.benefit_report import benefit_report as benefit_report
from elbert.fairness.bias_inference import BiasEstimate as BiasEstimate
from elbert.fairness.bias_inference import BiasTest as BiasTest
from elbert.fairness.bias_inference import ImpactRatioEstimate as ImpactRatioEstimate
from elbert.fairness.bias_inference import bias_limit_test as bias_limit_test
from elbert.fairness.bias_inference import estimate_bias as estimate_bias
from elbert.fairness.bias_inference import estimate_impact_ratio as estimate_impact_ratio
from elbert.fairness.episode_totals import EpisodeTotals as EpisodeTotals
from elbert.fairness.episode_totals import NotEstimable as NotEstimable
from elbert.fairness.notions import ACCURACY_PARITY as ACCURACY_PARITY
from elbert.fairness.notions import DEMOGRAPHIC_PARITY as DEMOGRAPHIC_PARITY
from elbert.fairness.notions import DISCOVERY_PROBABILITY as DISCOVERY_PROBABILITY
from elbert.fairness.notions import EQUAL_OPPORTUNITY as EQUAL_OPPORTUNITY
from elbert.fairness.notions import EQUALIZED_ODDS as EQUALIZED_ODDS
from elbert.fairness.notions import NOTIONS as NOTIONS
from elbert.fairness.notions import Criterion as Criterion
from elbert.fairness.notions import Notion as Notion
from elbert.fairness.notions import get_notion as get_notion
from elbert.fairness.notions import register_notion as register_notion
from elbert.fairness.penalties import Penalty as Penalty
from elbert.fairness.penalties import penalty_slope as penalty_slope
from elbert.fairness.penalties import squared_bias as squared_bias
from elbert.fairness.rate_intervals import MeanEstimate as MeanEstimate
from elbert.fairness.rate_intervals import RateEstimates as RateEstimates
from elbert.fairness.rate_intervals import estimate_rates as estimate_rates
from elbert.fairness.rate_intervals import mean_interval as mean_interval
from elbert.fairness.rates import Totals as Totals
from elbert.fairness.rates import benefit_rate as benefit_rate
from elbert.fairness.rates import bias as bias
from elbert.fairness.rates import centred_soft_bias as centred_soft_bias
from elbert.fairness.rates import impact_ratio as impact_ratio
from elbert.fairness.rates import long_term_benefit_rate as long_term_benefit_rate
from elbert.fairness.rates import ratio as ratio
from elbert.fairness.rates import soft_bias as soft_bias
from elbert.fairness.rates import totals as totals
from elbert.fairness.stepwise import decision_weights as decision_weights
from elbert.fairness.stepwise import stepwise_difference as stepwise_difference
from elbert.fairness.stepwise import stepwise_squared_difference as stepwise_squared_difference
