"""scikit-learn: a regressor and a classifier that average over a posterior."""

from typing import TYPE_CHECKING

from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re.sklearn.estimators import BayesianClassifier as BayesianClassifier
    from tati_re.sklearn.estimators import BayesianRegressor as BayesianRegressor

__getattr__, __all__ = lazy_names(__name__)
