"""Priors of the parameters: V = -log prior, normalization included, and the walls they put around the walkers."""

from tati_re.core.potential import Prior
from tati_re.posterior.priors.choosing import check_prior, make_prior
from tati_re.posterior.priors.families import Flat, Gaussian, Laplace, StudentT
from tati_re.posterior.priors.product import Product
from tati_re.posterior.priors.soft import SoftWalls
from tati_re.posterior.priors.walls import Box, HardWalls

__all__ = [
    "Box",
    "Flat",
    "Gaussian",
    "HardWalls",
    "Laplace",
    "Prior",
    "Product",
    "SoftWalls",
    "StudentT",
    "check_prior",
    "make_prior",
]
