"""The kind of a run, and its rows at the target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


def at_target(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that are draws from the target: at its temperature, with a weight."""
    if "rung" in rows:
        rows = rows[rows["rung"] == 0]
    return rows[rows["weight"] > 0] if "weight" in rows else rows


def is_optimization(manifest: dict[str, Any], rows: pd.DataFrame) -> bool:
    """Returns whether a run is an optimization, by its manifest, or by rows without a temperature."""
    if manifest.get("kind") == "fit":
        return True
    values = rows["temperature"].to_numpy(dtype=np.float64) if "temperature" in rows.columns else np.full(1, np.nan)
    return not np.any(values > 0)


def sees_batches(manifest: dict[str, Any]) -> bool:
    options, whole = manifest.get("options", {}), manifest.get("dataset", {}).get("num_examples")
    size = options.get("batch_size")
    return size is not None and (size != whole or options.get("batch_sampling") == "replacement")
