"""Models of other libraries as densities that a `Simulation` samples.

`from_numpyro(model, *args, **kwargs)` and `from_pymc(model)` return a density for
`Simulation(potential=...)`. NumPyro or PyMC, which must be installed, computes its log density and
gradient. A model of another library is an `OutsideModel`, a class with two methods.
"""

from typing import TYPE_CHECKING

from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re.interop.numpyro_models import from_numpyro as from_numpyro
    from tati_re.interop.outside_density import OutsideDensity as OutsideDensity
    from tati_re.interop.outside_density import OutsideModel as OutsideModel
    from tati_re.interop.pymc_models import from_pymc as from_pymc

__getattr__, __all__ = lazy_names(__name__)
