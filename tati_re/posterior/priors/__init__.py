"""Priors of the parameters: V = -log prior, normalization included, and the walls they put around
the walkers. An argument out of the range that its line names is an `InputError`.
"""

from tati_re.core.lazy import names_exported
from tati_re.core.potential import Prior as Prior
from tati_re.posterior.priors.choosing import check_prior as check_prior
from tati_re.posterior.priors.choosing import make_prior as make_prior
from tati_re.posterior.priors.families import Flat as Flat
from tati_re.posterior.priors.families import Gaussian as Gaussian
from tati_re.posterior.priors.families import Laplace as Laplace
from tati_re.posterior.priors.families import StudentT as StudentT
from tati_re.posterior.priors.hierarchical import Hierarchical as Hierarchical
from tati_re.posterior.priors.product import Product as Product
from tati_re.posterior.priors.soft import SoftWalls as SoftWalls
from tati_re.posterior.priors.soft import Tether as Tether
from tati_re.posterior.priors.walls import Box as Box
from tati_re.posterior.priors.walls import HardWalls as HardWalls

__all__ = names_exported(__name__)
