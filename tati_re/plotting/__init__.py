"""Figures of a run, as PNG files; no window, no global state of matplotlib."""

from __future__ import annotations

from tati_re.plotting.calibration import plot_calibration, plot_classes
from tati_re.plotting.points import plot_points
from tati_re.plotting.regression import plot_values
from tati_re.plotting.temperatures import plot_temperatures
from tati_re.plotting.traces import plot_traces

__all__ = ["plot_calibration", "plot_classes", "plot_points", "plot_temperatures", "plot_traces", "plot_values"]
