"""Loss landscapes: directions, lines, planes, projections of trajectories, and the curvature at a point.

A `Surface` evaluates many points at once; `scan` walks over a grid of them and writes a table that goes on where
it was stopped. `hessian_eigenpairs`, `hessian_trace`, `hessian_density` and `hessian_matrix` look at the curvature.
"""

from tati_re.landscape.directions import (
    between,
    covariance_directions,
    held,
    project_out,
    random_directions,
    trajectory_directions,
)
from tati_re.landscape.grid import Axis, Grid, parse_axis, parse_scales, project
from tati_re.landscape.hessian import (
    Density,
    HessianEigenpairs,
    Trace,
    hessian_density,
    hessian_directions,
    hessian_eigenpairs,
    hessian_matrix,
    hessian_trace,
)
from tati_re.landscape.inputspace import InputSpace, input_space
from tati_re.landscape.request import centre_of
from tati_re.landscape.scan import Landscape, along, load, path_of, scan
from tati_re.landscape.surface import Surface

__all__ = [
    "Axis",
    "Density",
    "Grid",
    "HessianEigenpairs",
    "InputSpace",
    "Landscape",
    "Surface",
    "Trace",
    "along",
    "between",
    "centre_of",
    "covariance_directions",
    "held",
    "hessian_density",
    "hessian_directions",
    "hessian_eigenpairs",
    "hessian_matrix",
    "hessian_trace",
    "input_space",
    "load",
    "parse_axis",
    "parse_scales",
    "path_of",
    "project",
    "project_out",
    "random_directions",
    "scan",
    "trajectory_directions",
]
