"""Loss landscapes: directions, lines, planes, projections of trajectories, and the curvature at a
point.

A `Surface` evaluates many points at once; `scan` walks over a grid of them and writes a table that
goes on where it was stopped. `hessian_eigenpairs`, `hessian_trace`, `hessian_density` and
`hessian_matrix` look at the curvature.
"""

from tati_re.core.lazy import names_exported
from tati_re.landscape.directions import between as between
from tati_re.landscape.directions import covariance_directions as covariance_directions
from tati_re.landscape.directions import fixed_mask as fixed_mask
from tati_re.landscape.directions import held as held
from tati_re.landscape.directions import project_out as project_out
from tati_re.landscape.directions import random_directions as random_directions
from tati_re.landscape.directions import trajectory_directions as trajectory_directions
from tati_re.landscape.grid import Axis as Axis
from tati_re.landscape.grid import Grid as Grid
from tati_re.landscape.grid import parse_axis as parse_axis
from tati_re.landscape.grid import parse_scales as parse_scales
from tati_re.landscape.grid import project as project
from tati_re.landscape.hessian import Density as Density
from tati_re.landscape.hessian import HessianEigenpairs as HessianEigenpairs
from tati_re.landscape.hessian import Trace as Trace
from tati_re.landscape.hessian import hessian_density as hessian_density
from tati_re.landscape.hessian import hessian_directions as hessian_directions
from tati_re.landscape.hessian import hessian_eigenpairs as hessian_eigenpairs
from tati_re.landscape.hessian import hessian_matrix as hessian_matrix
from tati_re.landscape.hessian import hessian_trace as hessian_trace
from tati_re.landscape.inputspace import InputSpace as InputSpace
from tati_re.landscape.inputspace import input_space as input_space
from tati_re.landscape.request import centre_of as centre_of
from tati_re.landscape.scan import Landscape as Landscape
from tati_re.landscape.scan import along as along
from tati_re.landscape.scan import load as load
from tati_re.landscape.scan import path_of as path_of
from tati_re.landscape.scan import scan as scan
from tati_re.landscape.surface import Surface as Surface

__all__ = names_exported(__name__)
