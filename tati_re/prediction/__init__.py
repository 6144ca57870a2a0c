"""Prediction: posterior averages of the outputs of a network, and how good they are."""

from typing import TYPE_CHECKING

from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re.prediction.averaging import average as average
    from tati_re.prediction.held_out import held_out_comparison as held_out_comparison
    from tati_re.prediction.inputs import noise_like as noise_like
    from tati_re.prediction.leave_one_out import LeaveOneOut as LeaveOneOut
    from tati_re.prediction.leave_one_out import leave_one_out as leave_one_out
    from tati_re.prediction.metrics import Calibration as Calibration
    from tati_re.prediction.metrics import accuracy as accuracy
    from tati_re.prediction.metrics import calibration as calibration
    from tati_re.prediction.metrics import negative_log_likelihood as negative_log_likelihood
    from tati_re.prediction.metrics import predictive_entropy as predictive_entropy
    from tati_re.prediction.results import ClassPrediction as ClassPrediction
    from tati_re.prediction.results import LabelPrediction as LabelPrediction
    from tati_re.prediction.results import Prediction as Prediction
    from tati_re.prediction.results import RegressionPrediction as RegressionPrediction
    from tati_re.prediction.scores import auroc as auroc
    from tati_re.prediction.scores import brier_score as brier_score
    from tati_re.prediction.scores import crps as crps
    from tati_re.prediction.sources import source_of as source_of
    from tati_re.prediction.stacking import Stacking as Stacking
    from tati_re.prediction.stacking import chain_weights as chain_weights
    from tati_re.prediction.temperature_study import TemperatureStudy as TemperatureStudy

__getattr__, __all__ = lazy_names(__name__)
