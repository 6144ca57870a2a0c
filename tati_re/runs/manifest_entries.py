"""The tables of a manifest as frozen dataclasses: what a run was asked for and what it became.

A field is a key of `manifest.toml`. One with a default may be missing: the run did not need it, or
an earlier version did not write it. `table` is the whole table, with the keys of other versions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tati_re.core.files.typed_tables import Count, FiniteNumber, entry_of, under, whole_table
from tati_re.models.names import described_names


@dataclass(frozen=True)
class StageEntry:
    """A stage of a fit; what is missing is as in the options of the run."""

    num_steps: Count = 0
    learning_rate: FiniteNumber | None = None
    batch_size: Count | str | None = None
    table: Mapping[str, Any] = whole_table()


@dataclass(frozen=True)
class OptionsEntry:
    """The options of a run that the package reads again; `table` has all of them.

    An option is missing if it was None, or if the version of the run did not have it.
    """

    batch_norm: str | None = None
    batch_sampling: str | None = None
    batch_size: Count | None = None
    bias: str | None = None
    calibrate: str = "none"
    certify: str = "none"
    data: str | tuple[str, ...] | None = None
    data_keys: tuple[str, ...] = ()
    directions: str | None = None
    dtype: Literal["float32", "float64"] = "float32"
    encoding: str | None = None
    fix_parameters: str | tuple[str, ...] | None = None
    goal: str | None = None
    layers: Literal["all", "last"] = "all"
    learning_rate: FiniteNumber | None = None
    loss: str | None = None
    model: str | None = None
    momentum: FiniteNumber | None = None
    noise_prior_scale: FiniteNumber | str | None = None
    noise_std: FiniteNumber | str = 1.0
    num_burnin_steps: Count | None = None
    num_classes: Count | None = None
    num_steps: Count | None = None
    num_walkers: Count = 1
    optimizer: str | None = None
    output: str | None = None
    potential: str | None = None
    record_every: Count = 1
    sample_weights: str | None = None
    sampler: str | None = None
    seed: Count = 0
    stages: tuple[StageEntry, ...] = ()
    standardize: str = "none"
    step_size: FiniteNumber | str | None = None
    stream_predictions: Count = 0
    target_bias: FiniteNumber | None = None
    target_bias_of: str = "mean"
    temperatures: tuple[FiniteNumber, ...] = ()
    trajectory_every: Count = 0
    trajectory_rungs: str | None = None
    until: str | None = None
    weights: str = "equal"
    walker_start: str | None = None
    workers: int | None = None
    table: Mapping[str, Any] = whole_table()


@dataclass(frozen=True)
class MethodEntry:
    """How the run moved: the configuration of its sampler or optimizer, in `table`."""

    sampler: str | None = None
    optimizer: str | None = None
    exchange: str | None = None
    swap_rule: str | None = None
    swap_bias: str = ""
    adapt_ladder: bool = False
    temperatures: tuple[float, ...] = ()
    num_replicas: Count = 1
    simulated_tempering: tuple[float, ...] | None = None
    likelihood_weights: tuple[float, ...] = (1.0,)
    table: Mapping[str, Any] = whole_table()


@dataclass(frozen=True)
class LossEntry:
    """The loss, or the likelihood, and its settings."""

    loss: str | None = None
    from_logits: bool = True
    noise_std: FiniteNumber | str | tuple[FiniteNumber, ...] | None = None
    likelihood: Any = None
    table: Mapping[str, Any] = whole_table()


@dataclass(frozen=True)
class PriorEntry:
    """The prior and its settings."""

    prior: str | None = None
    table: Mapping[str, Any] = whole_table()


@dataclass(frozen=True)
class PartEntry:
    """A tensor of which some entries are fixed: its shape, and their places in it."""

    shape: tuple[Count, ...]
    fixed: tuple[Count, ...]


@dataclass(frozen=True)
class ParametersEntry:
    """The parameters that are sampled, by tensors; `parts` are those of which some entries are
    fixed. `supports` are the names, shapes and bounds of parameters whose free coordinates are
    sampled.
    """

    num: Count = 0
    names: tuple[str, ...] = ()
    shapes: tuple[tuple[Count, ...], ...] = ()
    parts: Mapping[str, PartEntry] | None = None
    supports: tuple[Mapping[str, Any], ...] = ()
    table: Mapping[str, Any] = whole_table()

    def sizes(self) -> dict[str, int]:
        """The number of sampled entries of each tensor, by its name."""
        return {name: math.prod(shape) for name, shape in zip(self.names, self.shapes, strict=True)}

    def all_names(self) -> list[str]:
        """Names of the parameters, in the order of the vector: `dense/kernel[0,3]`."""
        return described_names(self.table)


@dataclass(frozen=True)
class StandardEntry:
    """Mean and standard deviation by which columns were standardized."""

    mean: FiniteNumber | tuple[FiniteNumber, ...] = 0.0
    deviation: FiniteNumber | tuple[FiniteNumber, ...] = 1.0


@dataclass(frozen=True)
class PreparationEntry:
    """How columns of a table became inputs and targets of the network."""

    input: StandardEntry | None = None
    target: StandardEntry | None = None
    columns: tuple[tuple[Any, ...], ...] | None = None
    names: tuple[str, ...] = ()
    table: Mapping[str, Any] = whole_table()


@dataclass(frozen=True)
class RangesEntry:
    """Least and largest value of each input column of the training set."""

    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True)
class LayoutEntry:
    """One of several inputs of a network: its name, and the shape of one example."""

    name: str
    shape: tuple[Count, ...]


@dataclass(frozen=True)
class CategoriesEntry:
    """A column of text among the inputs: its categories, in the order of their numbers."""

    column: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class DataEntry:
    """The data of a run: enough to predict for other inputs without them."""

    name: str = "arrays"
    fingerprint: str = ""
    num_examples: Count | None = None
    potential: bool = False
    task: str | None = None
    num_classes: Count | None = None
    input_scale: FiniteNumber = 1.0
    feature_names: tuple[str, ...] = ()
    class_names: tuple[Any, ...] | None = None
    class_weights: tuple[FiniteNumber, ...] = ()
    label_names: tuple[str, ...] = ()
    places: tuple[Count, ...] | None = None
    layout: tuple[LayoutEntry, ...] = ()
    layout_scales: tuple[FiniteNumber, ...] = ()
    input_ranges: RangesEntry | None = None
    input_categories: tuple[CategoriesEntry, ...] = ()
    preparation: PreparationEntry | None = None
    table: Mapping[str, Any] = whole_table()


@dataclass(frozen=True)
class WorkerEntry:
    """One worker: its device, and in `table` its versions of packages."""

    device: str | None = None
    table: Mapping[str, Any] = whole_table()


@dataclass(frozen=True)
class WorkersEntry:
    """The processes that held the walkers of the run, in blocks."""

    number: Count = 1
    block_size: Count = 1
    blocks: Count = 1
    threads: Count = 1
    machines: Mapping[str, Count] | None = None
    differ: tuple[str, ...] = ()
    worker: WorkerEntry | None = None
    table: Mapping[str, Any] = whole_table()


@dataclass(frozen=True)
class ConvergenceEntry:
    """How far a run had converged at a step, in the numbers of `tati_re.analysis.until`."""

    step: Count = 0
    rhat: float = math.nan
    rhat_of: str = ""
    ess: float = math.nan
    ess_of: str = ""
    rhat_of_weights: float | None = under("rhat(weights)")
    name_of_weights: str | None = under("rhat(weights)_of")
    rhat_by_chance: float = math.nan
    rhat_by_chance_of_one: float | None = None
    spoiled_by: tuple[Count, ...] = ()
    rhat_without: float = math.nan
    rhat_between: float = math.nan
    eevpd: float | None = None
    mcse: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[str, float] = field(default_factory=dict)
    elpd: float = math.nan
    gain: float = math.nan
    unexplained: FiniteNumber = 0.0
    table: Mapping[str, Any] = whole_table()

    @classmethod
    def of(cls, numbers: Mapping[str, Any]) -> ConvergenceEntry:
        """The entry of numbers that were just computed."""
        return entry_of(cls, numbers)


@dataclass(frozen=True)
class UntilEntry:
    """The looks at a run that ends when its conditions hold.

    `most` and `every` are the number of steps and the distance of stored positions that were
    planned first; `given` says that a resume was given its number of steps. At the step `stuck_at`
    the run ended because its chains sat in different modes.
    """

    most: Count | None = None
    every: Count | None = None
    reached: bool = False
    given: bool = False
    conditions: tuple[str, ...] = ()
    looks: tuple[ConvergenceEntry, ...] = ()
    stuck_at: Count | None = None
    table: Mapping[str, Any] = whole_table()

    def look_at(self, step: int) -> ConvergenceEntry | None:
        """The look at a step, if there was one."""
        return next((look for look in self.looks if look.step == step), None)


@dataclass(frozen=True)
class CenteredEntry:
    """The configurational temperature of stored positions about their means, at a step."""

    step: Count
    num_draws: Count
    mean: float
    lower: float
    upper: float


@dataclass(frozen=True)
class ExpectedHeating:
    """Relative rises of temperatures that mini-batch noise is expected to cause; or, in
    `not_predicted`, why there is no number.
    """

    slowest: float = math.nan
    stiffest: float = math.nan
    hottest: float = math.nan
    mean: float = math.nan
    virial: float = math.nan
    kinetic: float = math.nan
    frequencies: tuple[float, ...] = ()
    gradient_variance: float | None = None
    num_examples: Count | None = None
    steps: float | None = None
    memory: float = math.nan
    memory_epochs: float = math.nan
    not_predicted: str | None = None
    table: Mapping[str, Any] = whole_table()

    def of_single_directions(self) -> dict[str, float]:
        """The known rises in single directions, or in a few, by name."""
        rises = {"slowest": self.slowest, "stiffest": self.stiffest, "hottest": self.hottest}
        return {name: rise for name, rise in rises.items() if name in self.table}


@dataclass(frozen=True)
class HeatingEntry:
    """The expected heating at the start of the run, or after its burn-in, and at its end."""

    start: ExpectedHeating | None = None
    end: ExpectedHeating | None = None
    table: Mapping[str, Any] = whole_table()

    @property
    def latest(self) -> ExpectedHeating | None:
        """The heating at the end, else at the start; None if there is no noise."""
        known = (entry for entry in (self.end, self.start) if entry is not None and entry.table)
        return next(known, None)


@dataclass(frozen=True)
class BurninCut:
    """The step at which a burn-in was cut off, and what did it."""

    step: Count
    by: str


@dataclass(frozen=True)
class LastPositions:
    """The step of the last positions, stored because no draw was; `of` says if they are fits."""

    step: Count
    of: str | None = None


@dataclass(frozen=True)
class PredictorEntry:
    """What a run for prediction predicts with, and the comparison that decided it.

    Attributes:
        uses: `"chains"`; `"fits"`, from which the chains began; or `"both"`, with half of the weight
            each.
        rows: Held-out rows that were compared; 0 if the chains have too few draws.
        fits: Mean log density of these rows under the ensemble of the fits, in nats.
        chains: The same under the chains, with each row left out.
        error: Standard error of the difference, in nats.
        draws: Draws of each chain, at least.
    """

    uses: Literal["chains", "fits", "both"] = "chains"
    rows: Count = 0
    fits: float = math.nan
    chains: float = math.nan
    error: float = math.nan
    draws: Count = 0
    table: Mapping[str, Any] = whole_table()


@dataclass(frozen=True)
class ChoiceEntry:
    """How the model of a run for prediction was chosen: by the mean held-out log density of a row
    for each candidate. Where chains on mini-batches were tried, their steps and density as well.
    """

    chosen: str = ""
    held_out: Count = 0
    candidates: tuple[str, ...] = ()
    densities: tuple[float, ...] = ()
    trial_steps: Count = 0
    trial_density: float = math.nan
    trial_won: bool = False
    table: Mapping[str, Any] = whole_table()


@dataclass(frozen=True)
class TeacherEntry:
    """How chains from exact equilibrium draws and chains from the usual starts agree.

    `rhat` is the worst nested R-hat over chains and quantities, of `rhat_of`; `by_chance` what it
    is below by chance with the probability `level`. `draws` are the independent equilibrium draws.
    `why` says why nothing was compared; empty if something was.
    """

    step: Count = 0
    draws: Count = 0
    rhat: float = math.nan
    rhat_of: str = ""
    by_chance: float = math.nan
    limit: float = math.nan
    level: float = math.nan
    why: str = ""
    table: Mapping[str, Any] = whole_table()
