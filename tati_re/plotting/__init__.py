"""Figures of a run, as PNG files; no window, no global state of matplotlib. A function that draws
returns the figure, takes the `path` of a PNG file to write, by default none, and raises
`InputError` where the file cannot be written.
"""

from typing import TYPE_CHECKING

from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re.plotting.analysis import plot_diffusion_map as plot_diffusion_map
    from tati_re.plotting.analysis import plot_free_energy as plot_free_energy
    from tati_re.plotting.analysis import plot_group_temperatures as plot_group_temperatures
    from tati_re.plotting.analysis import plot_learning_coefficient as plot_learning_coefficient
    from tati_re.plotting.analysis import plot_reweighting as plot_reweighting
    from tati_re.plotting.analysis import plot_spectrum as plot_spectrum
    from tati_re.plotting.calibration import plot_classes as plot_classes
    from tati_re.plotting.comparison import plot_comparison as plot_comparison
    from tati_re.plotting.evidence import plot_evidence as plot_evidence
    from tati_re.plotting.exploration import plot_disconnectivity as plot_disconnectivity
    from tati_re.plotting.exploration import plot_exploration as plot_exploration
    from tati_re.plotting.figure import COLORS as COLORS
    from tati_re.plotting.figure import DARK as DARK
    from tati_re.plotting.figure import GRAY as GRAY
    from tati_re.plotting.figure import legend_above as legend_above
    from tati_re.plotting.figure import new_figure as new_figure
    from tati_re.plotting.figure import plain as plain
    from tati_re.plotting.figure import save as save
    from tati_re.plotting.inputs import plot_input_space as plot_input_space
    from tati_re.plotting.inputs import plot_points as plot_points
    from tati_re.plotting.landscape import plot_landscape as plot_landscape
    from tati_re.plotting.landscape import plot_spectrum_of_hessian as plot_spectrum_of_hessian
    from tati_re.plotting.landscape_files import write_landscape_page as write_landscape_page
    from tati_re.plotting.landscape_files import write_vtk as write_vtk
    from tati_re.plotting.prediction import plot_prediction as plot_prediction
    from tati_re.plotting.prediction import plot_values as plot_values
    from tati_re.plotting.ranks import plot_ranks as plot_ranks
    from tati_re.plotting.run import plot_autocorrelation as plot_autocorrelation
    from tati_re.plotting.run import plot_run as plot_run
    from tati_re.plotting.run import plot_traces as plot_traces
    from tati_re.plotting.temperatures import plot_ladder as plot_ladder
    from tati_re.plotting.temperatures import plot_temperatures as plot_temperatures

__getattr__, __all__ = lazy_names(__name__)
