"""Minima and the barriers between them."""

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tati_re.core.errors import AnyPath, refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.renamed import renamed_arguments
from tati_re.plotting.figure import (
    COLORS,
    DARK,
    GRAY,
    color_bar,
    labeled,
    legend_above,
    new_figure,
    plain,
    save,
)

if TYPE_CHECKING:
    from tati_re.exploration.result import Exploration

_SHOWN = 3
_CLOUD = 3000


@renamed_arguments(found="exploration")
@front_door
def plot_exploration(exploration: "Exploration", path: AnyPath | None = None) -> Figure:
    """Plots the points of an exploration, and U along the paths between its minima.

    The left panel shows sampled points and minima on the two directions of largest spread (or the
    parameters themselves, if there are two). Relaxed paths join the minima. The middle panel shows
    the barriers of all pairs: along the straight line above the diagonal, along the relaxed path
    below it. The right panel shows U along both paths, for the pairs that relaxation changes most.
    With a single minimum there is only the first panel.

    Args:
        exploration: The result of `tati_re.exploration.explore`.
        path: A PNG file to write. Default: None, no file.

    Returns:
        The figure.

    Raises:
        InputError: The exploration is empty.
    """
    refuse_if(not len(exploration.minima), "The exploration found no minimum.")
    several = bool(exploration.paths)
    figure = new_figure(12.6 if several else 4.4, 4.0)
    panels = figure.subplots(1, 3 if several else 1, squeeze=False)[0]
    _map(panels[0], exploration)
    if several:
        _barriers(figure, panels[1], exploration)
        _profiles(panels[2], exploration)
    return save(figure, path)


@renamed_arguments(found="exploration")
@front_door
def plot_disconnectivity(exploration: "Exploration", path: AnyPath | None = None) -> Figure:
    """Plots the disconnectivity tree of an exploration: lines from minima up to the passes that
    join them.

    The lines end at the potentials of the minima and fork at the potentials of the passes. Minima
    below a common fork can reach each other without going higher. See
    `tati_re.exploration.disconnectivity`.

    Args:
        exploration: The result of `tati_re.exploration.explore`.
        path: A PNG file to write. Default: None, no file.

    Returns:
        The figure.

    Raises:
        InputError: There are no paths between minima.
    """
    from tati_re.exploration.result import (
        disconnectivity,
    )  # loads TensorFlow, as what made the exploration did

    tree = disconnectivity(exploration)
    refuse_if(not len(tree), "The exploration found no path between minima.")
    bottoms = dict(zip(tree["number"], tree["potential"], strict=True))
    # The basin of a lowest minimum: its minima from left to right, and where its line has come to.
    basins = {number: ([number], number, bottom) for number, bottom in bottoms.items()}
    forks: list[tuple] = []
    for row in tree[tree["joins"] > 0].sort_values("joins_at").itertuples():
        (left, *left_minimum), (right, *other) = basins[row.joins], basins.pop(row.number)
        forks.append((row.joins_at, left_minimum, other, key := ("fork", len(forks))))
        basins[row.joins] = left + right, key, row.joins_at
    order = [number for numbers, *_ in basins.values() for number in numbers]
    across: dict[object, float] = {number: float(place) for place, number in enumerate(order)}
    figure = new_figure(max(3.6, 1.6 + 0.35 * len(order)), 4.0)
    panel = figure.subplots()
    for height, (left_minimum, low), (other, high), key in forks:
        panel.plot(
            [across[left_minimum]] * 2 + [across[other]] * 2,
            [low, height, height, high],
            color=COLORS[0],
        )
        across[key] = 0.5 * (across[left_minimum] + across[other])
    top = max([*tree["joins_at"].dropna(), *bottoms.values()])
    stub = 0.05 * (top - min(bottoms.values()))
    for _, key, reached in basins.values():
        panel.plot([across[key]] * 2, [reached, max(top, reached) + stub], color=COLORS[0])
    for number in order:
        panel.plot(across[number], bottoms[number], "o", color=COLORS[1], markersize=4)
        place = across[number], bottoms[number]
        below: Any = {"xytext": (0, -5), "textcoords": "offset points", "ha": "center", "va": "top"}
        panel.annotate(str(number), place, fontsize=7, **below)
    panel.set(xlim=(-0.7, len(order) - 0.3), xticks=[])
    panel.margins(y=0.1)
    labeled(panel, "minima by their numbers", "potential U")
    return save(figure, path)


def _map(panel: Axes, exploration: "Exploration") -> None:
    cloud = np.concatenate(exploration.legs)
    cloud = cloud[:: -(-len(cloud) // _CLOUD)]
    names = ["parameter 1", "parameter 2"]
    middle = np.zeros(cloud.shape[1])
    directions = np.eye(2)
    if cloud.shape[1] != 2:
        middle = cloud.mean(axis=0)
        _, _, rows = np.linalg.svd(cloud - middle, full_matrices=False)
        directions = rows[:2]
        names = ["direction 1", "direction 2"]
    if len(directions) < 2:
        directions = np.concatenate([directions, np.zeros((1, cloud.shape[1]))])
    panel.plot(
        *((cloud - middle) @ directions.T).T, ".", color=GRAY, markersize=1.5, alpha=0.5, zorder=0
    )
    for way in exploration.paths.values():
        panel.plot(
            *((way.images - middle) @ directions.T).T, color=COLORS[0], linewidth=0.7, alpha=0.6
        )
    points = (exploration.positions - middle) @ directions.T
    for place, kind, number in zip(
        points, exploration.minima["kind"], exploration.minima["number"], strict=True
    ):
        color = COLORS[1] if kind == "minimum" else COLORS[2]
        panel.plot(*place, "o", color=color, markersize=9, markeredgecolor="white")
        panel.annotate(str(number), place, color="white", fontsize=6, ha="center", va="center")
    counts = exploration.minima["kind"].value_counts()
    several = {"minimum": "minima", "valley": "valleys"}
    kinds = " and ".join(
        f"{n} {word if n == 1 else several.get(str(word), word)}" for word, n in counts.items()
    )
    panel.set_title(f"found: {kinds}", loc="left", fontsize=9, color=DARK)
    labeled(panel, *names)


def _barriers(figure: Figure, panel: Axes, exploration: "Exploration") -> None:
    count = int(exploration.barriers["second"].max())
    values = np.full((count, count), np.nan)
    first, second = (exploration.barriers[name].to_numpy() - 1 for name in ("first", "second"))
    values[first, second] = exploration.barriers["linear_barrier"]
    values[second, first] = exploration.barriers["relaxed_barrier"]
    drawn = panel.imshow(values, cmap="cividis")
    if count <= 8:
        middle = 0.5 * (np.nanmin(values) + np.nanmax(values))
        for i, j in np.argwhere(np.isfinite(values)):
            color = "white" if values[i, j] <= middle else DARK
            panel.text(
                j, i, f"{values[i, j]:.3g}", ha="center", va="center", fontsize=7, color=color
            )
    panel.set_xticks(range(count), [str(k + 1) for k in range(count)])
    panel.set_yticks(range(count), [str(k + 1) for k in range(count)])
    panel.set_title(
        "barriers: straight above, relaxed below the diagonal", loc="left", fontsize=9, color=DARK
    )
    color_bar(figure, panel, drawn, "barrier in U", shrink=0.8)
    plain(panel)


def _profiles(panel: Axes, exploration: "Exploration") -> None:
    gains = {
        pair: way.linear_barrier - way.relaxed_barrier for pair, way in exploration.paths.items()
    }
    pairs = sorted(gains, key=lambda pair: -gains[pair])[:_SHOWN]
    for number, pair in enumerate(pairs):
        way = exploration.paths[pair]
        color = COLORS[number % len(COLORS)]
        panel.plot(way.place, way.linear, color=color, linewidth=0.9, linestyle=":")
        # The first is the widest: of two that are alike both are seen.
        width = 1.5 + 1.6 * (len(pairs) - 1 - number)
        panel.plot(
            way.place, way.relaxed, color=color, linewidth=width, label=f"{pair[0]} to {pair[1]}"
        )
    labeled(panel, "fraction of the path; dotted: straight line", "potential U")
    legend_above(panel)
