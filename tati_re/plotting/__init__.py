"""Figures of a run, as PNG files; no window, no global state of matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re.plotting.autocorrelation import plot_autocorrelation
    from tati_re.plotting.calibration import plot_calibration, plot_classes
    from tati_re.plotting.evidence import plot_evidence
    from tati_re.plotting.exploration import plot_exploration
    from tati_re.plotting.figure import COLORS, DARK, GRAY, legend_above, new_figure, plain, save
    from tati_re.plotting.free_energy import plot_diffusion_map, plot_free_energy, plot_reweighting
    from tati_re.plotting.group_temperatures import plot_group_temperatures
    from tati_re.plotting.inputspace import plot_input_space
    from tati_re.plotting.landscape import plot_landscape, plot_spectrum_of_hessian
    from tati_re.plotting.landscape_page import write_landscape_page
    from tati_re.plotting.points import plot_points
    from tati_re.plotting.regression import plot_values
    from tati_re.plotting.spectrum import plot_spectrum
    from tati_re.plotting.temperatures import plot_temperatures
    from tati_re.plotting.traces import plot_traces

__all__ = [
    "COLORS",
    "DARK",
    "GRAY",
    "legend_above",
    "new_figure",
    "plain",
    "plot_autocorrelation",
    "plot_calibration",
    "plot_classes",
    "plot_diffusion_map",
    "plot_evidence",
    "plot_exploration",
    "plot_free_energy",
    "plot_group_temperatures",
    "plot_input_space",
    "plot_landscape",
    "plot_points",
    "plot_reweighting",
    "plot_spectrum",
    "plot_spectrum_of_hessian",
    "plot_temperatures",
    "plot_traces",
    "plot_values",
    "save",
    "write_landscape_page",
]

__getattr__ = lazy_names(__name__)
