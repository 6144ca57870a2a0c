"""Ensemble quasi-Newton: walkers precondition each other with their covariance."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tati_re.core import ops
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.facets import Turns
from tati_re.core.front_door import front_door
from tati_re.core.method import Wrapper
from tati_re.core.protocol import Evaluate, Noise, attributes_of, fields_of
from tati_re.samplers.first_order_hmc import FirstOrderHMC
from tati_re.samplers.hmc import HamiltonianMonteCarlo
from tati_re.samplers.microcanonical import MCLMC
from tati_re.samplers.sgld import SGLD
from tati_re.samplers.splitting import Splitting
from tati_re.samplers.wrappers.coordinates import curved, extend, inner_of, step_in_coordinates
from tati_re.samplers.wrappers.metered import is_timed

SCHEMES = ("halves", "simultaneous")
FEW_STEPS = 20
"""Refreshes more often than this heat what they precondition."""
_POWER_STEPS = 2
_MOST_TERMS = 8
"""Reference walkers up to which a product is summed term by term, which XLA joins with what is
around it.
"""
_PRECONDITIONER = ("deviations", "factor", "stiffest", "blending")
_IF_UNSTABLE = (
    "covariance_blending makes steps too long here. Use sampler HMC, which rejects such "
    "steps, or a smaller covariance_blending."
)


class LowRank:
    """B = I + X' S X for the walkers of each ensemble.

    B B' is I + η times the covariance of the reference walkers.

    Args:
        deviations: X, deviations of the reference walkers from their mean, shape (ensembles,
            references, parameters).
        factor: S, shape (ensembles, references, references) or (ensembles, walkers, references,
            references).
        inverse: S of B⁻¹, in the same shape.
    """

    def __init__(self, deviations, factor, inverse) -> None:
        self.deviations = deviations
        self.factor = factor
        self.inverse = inverse

    def forward(self, vectors):
        return self._apply(vectors, ops.transpose(self.factor))

    def transposed(self, vectors):
        return self._apply(vectors, self.factor)

    def backward(self, vectors):
        return self._apply(vectors, ops.transpose(self.inverse))

    def untransposed(self, vectors):
        return self._apply(vectors, self.inverse)

    def spread(self, variances):
        raise InputError(
            "covariance_blending: a full matrix mixes gradient entries, and their "
            "variances do not determine the mixture's.",
            expected="a sampler that does not use them, such as BAOAB or HMC",
        )

    def part(self, first, count: int):
        """Always an InputError: B belongs to all walkers of an ensemble.

        Args:
            first: Index of the first walker; it may be a tensor.
            count: Number of walkers.
        """
        problem = "covariance_blending: the inner sampler moves only some of the walkers at a time."
        raise InputError(problem, expected="such as BAOAB or HMC")

    def _apply(self, vectors, factor):
        """v + X' F' X v: with vectors as rows, the factor's transpose comes from the right. One
        ensemble goes without the batch axis, which makes XLA four times slower on long matrices.
        """
        ensembles, num_references, parameters = self.deviations.shape
        if ensembles > 1:
            grouped = ops.reshape(vectors, (ensembles, vectors.shape[0] // ensembles, parameters))
            along = _times_factor(grouped @ ops.transpose(self.deviations), factor)
            return vectors + ops.reshape(along @ self.deviations, vectors.shape)
        deviations = self.deviations[0]
        along = _times_factor(vectors @ ops.transpose(deviations), factor[0])
        if num_references > _MOST_TERMS:
            return vectors + along @ deviations
        return vectors + sum(
            along[:, k : k + 1] * deviations[k : k + 1] for k in range(num_references)
        )


def _times_factor(along, factor):
    """Rows times one matrix, or each row times a matrix of its own."""
    if len(factor.shape) == len(along.shape):
        return along @ factor
    return ops.reshape(
        ops.reshape(along, (*along.shape[:-1], 1, along.shape[-1])) @ factor, along.shape
    )


class EnsembleTurns(Turns):
    """Turns of an ensemble: a half of the walkers, or all of them, with one preconditioner."""

    method: "EnsembleQuasiNewton"

    def begin(self, state: Any, evaluate: Evaluate) -> Any:
        return self.method.begin_turn(state, evaluate)

    def move(self, turn: Any, evaluate: Evaluate, noise: Noise) -> Any:
        return self.method.move(turn, evaluate, noise)

    def end(self, state: Any, turn: Any, evaluate: Evaluate) -> Any:
        return self.method.end_turn(state, turn, evaluate)


class EnsembleQuasiNewton(Wrapper):
    """Ensemble quasi-Newton: each chain is preconditioned by the covariance of the other chains.

    Targets exp(-β U) for every walker, with the step-size bias of the sampler inside.

    Rule: the step of the sampler inside with B in every drift and every kick,

        drift    θ <- θ + t B p
        kick     p <- p - t B' ∇U(θ),     B B' = I + η cov(other walkers)

    The momenta p ~ N(0, T) belong to the coordinates x = B⁻¹ θ, in which mass is 1.

    "halves" (default): one half of the walkers takes `covariance_after_steps` steps with one common
    B from the resting half, then the roles change. Given the resting half, each turn preserves the
    distribution of the moving half, and hence of the whole. Steps are counted per walker; a walker
    is recorded only while it moves.

    "simultaneous": all walkers move at once, each with B from all others, as in TATi. B then
    depends on walkers that have moved since, and the distribution is biased: on a Gaussian of 16
    dimensions, 8 walkers, refresh at every step, the variance of the slowest direction falls to
    0.65 (h = 0.125). For comparison only.

    A drift with B multiplies the stiffness by up to 1 + η λ, so that B is capped: η is lowered at
    each refresh until h² (k_max + η λ_max) <= 1 (around SGLD h in place of h², for its h multiplies
    the gradient: variances are up to twice the exact ones there), k_max the largest curvature at
    the reference walkers (power iteration, carried from refresh to refresh), λ_max the largest
    eigenvalue of X H X'/L, both by differences of gradients at the reference walkers. Flat
    directions, along which walkers would drift apart, are bounded likewise. The η in use is
    `blending` in run.csv.

    The momentum distribution of a Langevin word depends on B to order (hω)², and each refresh
    starts with momenta for the previous B: at condition 10⁴, hω = 1/2, with η at its cap, the
    stiffest direction's variance is 1.20, 1.10, 1.06 and 1.04 times the exact one with a refresh
    each 1, 5, 20 and 50 steps. Where curvature changes from place to place (a banana), a step that
    is stable at the reference walkers may be unstable where the moving ones go, and no B from the
    resting half can know. HMC inside has neither problem: it redraws its momenta and rejects such
    steps.

    B is a low-rank update: with U = sqrt(η/L) X' of the reference walkers' deviations X and M the
    Cholesky factor of the L x L matrix I + U'U, B = I + U (I + M)⁻¹ U': O(P L) numbers, O(P L²)
    work, never a P x P matrix. Cost: that of the sampler inside, two products with B a step, and 4
    gradients of the reference walkers at each refresh. Source: Leimkuhler, Matthews and Weare,
    Statistics and Computing 28, 277 (2018); halves: Foreman-Mackey et al., PASP 125, 306 (2013),
    and Chok, Lee, Paulin and Vasil, arXiv 2509.09162.

    Args:
        inner: A Langevin word over A, B, O, D; SGLD; or HMC. Default: BAOAB.
        covariance_blending: η, at least 0. Default: 10.
        covariance_after_steps: Steps between two refreshes of B, at least 1. Default: 100.
        scheme: "halves" or "simultaneous". Default: "halves".
        capped: Lower η where a step would be unstable. Default: True.
        num_ensembles: Number of independent ensembles of neighboring walkers. Default: 1.

    Raises:
        InputError: A value out of its range, or a sampler that cannot be preconditioned by a full
            matrix.

    Examples:
        >>> EnsembleQuasiNewton(Splitting("BAOAB"), covariance_blending=10.0).groups
        2
    """

    @front_door
    def __init__(
        self,
        inner=None,
        covariance_blending: float = 10.0,
        covariance_after_steps: int = 100,
        scheme: str = "halves",
        capped: bool = True,
        num_ensembles: int = 1,
    ) -> None:
        super().__init__(inner or Splitting())
        problem = "covariance_blending: the ensemble needs a fixed step size."
        refuse_if(
            self.adapts, problem, f"{self.inner.name}, which tunes itself", "no target_acceptance"
        )
        by_word = isinstance(self.inner, Splitting) and "C" not in self.inner.word
        fits = isinstance(self.inner, SGLD | HamiltonianMonteCarlo | MCLMC)
        fits = fits and not isinstance(self.inner, FirstOrderHMC)
        if not by_word and not fits:
            problem = "covariance_blending: this sampler works parameter by parameter."
            raise InputError(
                problem, self.inner.name, "a Langevin word without C, SGLD, HMC, MAMS or MCLMC"
            )
        refuse_if(
            not covariance_blending >= 0,
            "covariance_blending: negative.",
            covariance_blending,
            "0 or more",
        )
        refuse_if(
            covariance_after_steps < 1,
            "covariance_after_steps: too few.",
            covariance_after_steps,
            "1 or more",
        )
        refuse_if(
            scheme not in SCHEMES,
            "ensemble_scheme: unknown value.",
            repr(scheme),
            " or ".join(SCHEMES),
        )
        self.covariance_blending = float(covariance_blending)
        self.covariance_after_steps = int(covariance_after_steps)
        self.scheme = scheme
        self.capped = capped
        self.num_ensembles = num_ensembles
        self.groups = 2 if scheme == "halves" else 1
        self.turns = EnsembleTurns(self, self.groups, self.covariance_after_steps)
        self.against_noise = (
            "the ensemble changes the frequencies that the noise excites as it moves."
        )
        self.dynamics = replace(
            self.inner.dynamics,
            mixes_parameters=True,
            if_unstable=_IF_UNSTABLE if self.covariance_blending else "",
            note=refresh_note(self.get_config()) or "",
        )
        self.shown = ("blending", *self.inner.shown)

    def check_walkers(self, num_walkers: int) -> None:
        """Checks the number of walkers: at least 4, and equally many in every half of every ensemble.

        Args:
            num_walkers: Number of walkers.

        Raises:
            InputError: The number does not fit.
        """
        share = self.num_ensembles * (2 if self.scheme == "halves" else 1)
        if num_walkers < 4 or num_walkers % share or num_walkers // self.num_ensembles < 3:
            problem = "num_walkers: an ensemble needs walkers to learn from."
            raise InputError(
                problem,
                num_walkers,
                "4 or more, an even number" if self.scheme == "halves" else "4 or more",
            )

    def init(self, position, evaluate, noise):
        """Starts as the sampler inside does; B starts as the identity.

        Args:
            position: Positions, shape (walkers, parameters).
            evaluate: Computes U and its gradient on the first mini-batch.
            noise: Random numbers of this step.

        Raises:
            InputError: The number of walkers does not fit.
        """
        self.check_walkers(position.shape[0])
        state = self.inner.init(position, evaluate, noise)
        num_references = position.shape[0] // self.groups
        walkers_per_ensemble = num_references // self.num_ensembles
        shape = (
            (self.num_ensembles, walkers_per_ensemble, walkers_per_ensemble)
            if self.scheme == "halves"
            else (
                self.num_ensembles,
                walkers_per_ensemble,
                walkers_per_ensemble,
                walkers_per_ensemble,
            )
        )
        # A start for the power iteration that is orthogonal to nothing: the golden ratio never
        # repeats itself.
        start = np.cos(
            2 * np.pi * 0.6180339887498949 * np.arange(num_references * position.shape[1]) + 1.0
        )
        deviations = 0.0 * ops.rows(position, 0, num_references)
        factor = ops.constant(np.zeros((2, *shape)), position)
        known = (
            deviations,
            factor,
            ops.constant(start.reshape(num_references, -1), position),
            0.0 * state.potential,
        )
        slope, slope_of = (
            ops.rows(values, 0, num_references) for values in (state.gradient, state.potential)
        )
        return extend(
            state,
            **dict(zip(_PRECONDITIONER, known, strict=True)),
            slope=0.0 * slope,
            slope_of=slope_of,
        )

    def step(self, state, evaluate, noise):
        moved, info = self.move(self.begin_turn(state, evaluate), evaluate, noise)
        return self.end_turn(state, moved, evaluate), info

    def begin_turn(self, state, evaluate):
        """Selects the walkers that move, with B and B'∇U; B is new at the start of a turn.

        Args:
            state: The state of all walkers.
            evaluate: Computes U and its gradient.

        Returns:
            The state of the turn, the argument of `move`.
        """
        count = state.potential.shape[0] // self.groups

        def of_moving(values):
            return (
                values
                if self.groups == 1
                else ops.rows(values, evaluate.clock.group * count, count)
            )

        due = (evaluate.clock.step - 1) % self.covariance_after_steps == 0
        before = tuple(fields_of(state, _PRECONDITIONER).values())
        preconditioner = ops.replaced_if(
            due, lambda _, __, most, ___: self._refreshed(state, evaluate, most), before
        )
        # B'∇U is that of the last step's end, unless B is new or the walkers have been given
        # another potential since.
        other = ops.largest(ops.absolute(of_moving(state.potential) - state.slope_of), 0) > 0.0
        (slope,) = ops.replaced_if(
            due | other,
            lambda _: (_coordinates(preconditioner).transposed(of_moving(state.gradient)),),
            (state.slope,),
        )
        part = {
            name: of_moving(value)
            for name, value in inner_of(state)._asdict().items()
            if name != "rung"
        }
        known = dict(
            zip(_PRECONDITIONER, preconditioner, strict=True),
            slope=slope,
            slope_of=part["potential"],
        )
        return state._replace(**part, **known, rung=self._moving(evaluate, count).rung)

    def move(self, turn, evaluate, noise):
        """Makes one step of a turn.

        Args:
            turn: The result of `begin_turn` or of the last `move`.
            evaluate: Computes U and its gradient.
            noise: Random numbers of this step.

        Returns:
            The state of the turn after the step, and its `Info`.
        """
        preconditioner = tuple(fields_of(turn, _PRECONDITIONER).values())
        moving = self._moving(evaluate, turn.potential.shape[0])
        inner = inner_of(turn)._replace(rung=moving.rung)
        new, info, slope = step_in_coordinates(
            self.inner, inner, moving, noise, _coordinates(preconditioner), slope=turn.slope
        )
        if info.acceptance is not None and self.groups > 1:
            zeros = 0.0 * evaluate.rung.step_size
            first = evaluate.clock.group * new.potential.shape[0]
            info = type(info)(*(ops.with_rows(zeros, first, values) for values in info))
        return turn._replace(**new._asdict(), slope=slope, slope_of=new.potential), info

    def end_turn(self, state, turn, evaluate):
        """Ends a turn.

        Args:
            state: The state of all walkers at the start of the turn.
            turn: The result of the last `move`.
            evaluate: Computes U and its gradient.

        Returns:
            The state of all walkers.
        """
        if self.groups == 1:
            return turn._replace(rung=state.rung)
        first = evaluate.clock.group * turn.potential.shape[0]
        inside = [name for name in type(turn).base._fields if name != "rung"]
        before = fields_of(state, inside)
        moved = {
            name: ops.with_rows(before[name], first, value)
            for name, value in fields_of(turn, inside).items()
        }
        return turn._replace(**moved, rung=state.rung)

    def _moving(self, evaluate, count: int):
        return evaluate if self.groups == 1 else evaluate.part(evaluate.clock.group * count, count)

    def _grouped(self, values):
        """`(references, ...)` of all ensembles as `(ensembles, references of each, ...)`."""
        ensembles = self.num_ensembles
        return ops.reshape(values, (ensembles, values.shape[0] // ensembles, *values.shape[1:]))

    def _deviations(self, ensemble):
        grouped = self._grouped(ensemble)
        return grouped - ops.sum_over(grouped, 1) / float(grouped.shape[1])

    def _refreshed(self, state, evaluate, stiffest) -> tuple:
        """The fields of `_PRECONDITIONER` (with S of B⁻¹ as well) at the positions of the reference
        walkers.
        """
        if self.scheme == "halves":
            count = state.position.shape[0] // 2
            first = (1 - evaluate.clock.group) * count
            ensemble = ops.rows(state.position, first, count)
            references = evaluate.part(first, count)
        else:
            ensemble = state.position
            references = evaluate
        deviations = self._deviations(ensemble)
        blending, stiffest = self._blending(references, ensemble, deviations, stiffest)
        factor = self._factor(deviations, blending)
        used = 0.0 * ops.reshape(state.potential, (self.num_ensembles, -1)) + ops.reshape(
            blending, (-1, 1)
        )
        deviations = ops.reshape(deviations, ensemble.shape)
        used = ops.reshape(used, state.potential.shape)
        return deviations, ops.as_type(factor, state.position), stiffest, used

    def _factor(self, deviations, blending):
        """S with (I + X' S X)(I + X' S X)' = I + η X' A X, and S of the inverse; A centers and
        averages over references. With A = R R', U = sqrt(η) X' R and M M' = I + U'U: (I + U N⁻¹
        U')(...)' = I + U U' for N = I + M, as N + N' + U'U = N N'; the inverse is I - U N'⁻¹ M⁻¹ U'
        (Woodbury).
        """
        num_others = deviations.shape[1]
        if self.scheme == "halves":
            centring = (np.eye(num_others) - 1.0 / num_others) / np.sqrt(num_others)
        else:
            # Walker i learns from all others: their mean and average leave it out.
            others = 1.0 - np.eye(num_others)
            centring = np.stack(
                [np.diag(m) - np.outer(m, m) / (num_others - 1) for m in others]
            ) / np.sqrt(num_others - 1)
        wide = ops.as_type(deviations, blending)
        products = wide @ ops.transpose(wide)
        if self.scheme != "halves":
            products = ops.reshape(products, (self.num_ensembles, 1, num_others, num_others))
        root = ops.sqrt(ops.reshape(blending, (-1, *[1] * (len(products.shape) - 1))))
        root = root * ops.constant(centring, blending)
        gram = ops.transpose(root) @ products @ root
        identity = 0.0 * gram + ops.constant(np.eye(num_others), gram)
        lower = ops.cholesky(identity + gram)
        middle = ops.solve_lower(identity + lower, identity)
        inverse = ops.transpose(ops.solve_lower(lower, middle, transposed=True))
        return ops.stack([root @ m @ ops.transpose(root) for m in (middle, -inverse)])

    def _blending(self, evaluate, ensemble, deviations, stiffest):
        """η of each ensemble, lowered until a step is stable, and the stiffest direction of each
        reference walker.
        """
        step_size = ops.largest(self._grouped(evaluate.rung.step_size), 1)
        blending = 0.0 * step_size + self.covariance_blending
        if not self.capped:
            return blending, stiffest
        ask = evaluate.full if self.full_batch else evaluate
        gradient = ask(ensemble).gradient
        for _ in range(_POWER_STEPS):
            image, length = curved(ask, ensemble, gradient, stiffest)
            curvature = ops.sqrt(ops.sum_of_products(image, image)) / ops.maximum(
                length, 1e-30 + 0.0 * length
            )
            size = ops.maximum(ops.sqrt(ops.sum_of_products(image, image)), 1e-30 + 0.0 * length)
            stiffest = image / ops.column(size, image)
        image, _ = curved(ask, ensemble, gradient, ops.reshape(deviations, ensemble.shape))
        pairs = ops.as_type(deviations, blending) @ ops.transpose(
            ops.as_type(self._grouped(image), blending)
        )
        pairs = 0.5 * (pairs + ops.transpose(pairs)) / float(deviations.shape[1])
        top = _largest_eigenvalue(pairs)
        stiff = ops.largest(self._grouped(curvature), 1)
        most = 1.0 / (step_size**2 if is_timed(self) else step_size)
        room = ops.maximum(most - stiff, 0.0 * stiff) / ops.maximum(top, 1e-30 + 0.0 * top)
        return ops.minimum(blending, room), stiffest

    def get_config(self) -> dict:
        known = attributes_of(self, "covariance_blending", "covariance_after_steps")
        return {**self.inner.get_config(), **known, "ensemble_scheme": self.scheme}


def refresh_note(config: Mapping[str, Any]) -> str | None:
    """A sentence on refreshes that heat, from a method's `get_config`; only Langevin words have a
    friction.
    """
    every = config.get("covariance_after_steps", FEW_STEPS)
    if "friction" not in config or every >= FEW_STEPS or not config["covariance_blending"]:
        return None
    return (
        f"covariance_after_steps = {every}: momenta from the previous preconditioner heat "
        "after each refresh, most in stiff directions (up to 20 % at 1 step, 10 % at 5). "
        f"Use {FEW_STEPS} or more, or sampler HMC."
    )


def _coordinates(preconditioner: tuple) -> LowRank:
    """B of the fields `_PRECONDITIONER`."""
    deviations, factor, _, _ = preconditioner
    return LowRank(
        ops.reshape(deviations, (factor.shape[1], -1, deviations.shape[1])), factor[0], factor[1]
    )


def _largest_eigenvalue(matrices):
    """Of symmetric matrices `(n, L, L)`: the 64th root of the sum of the 64th powers of all, above
    it by 3 % at most for 8 eigenvalues. XLA's own eigenvalues of a 4 x 4 matrix take a second.
    """
    scale = 0.0 * matrices[:, 0, 0] + 1.0
    power = 1.0
    for _ in range(6):
        size = ops.sqrt(ops.largest(ops.largest(matrices * matrices, -1), -1)) + 1e-300
        scale = scale * size ** (1.0 / power)
        matrices = matrices / ops.reshape(size, (-1, 1, 1))
        matrices = matrices @ matrices
        power = 2.0 * power
    size = ops.sqrt(ops.largest(ops.largest(matrices * matrices, -1), -1)) + 1e-300
    trace = ops.sum_over(
        ops.sum_over(matrices * ops.constant(np.eye(matrices.shape[-1]), matrices), -1), -2
    )
    return (
        scale
        * ops.reshape(trace / ops.reshape(size, (-1, 1, 1)), (-1,)) ** (1.0 / power)
        * size ** (1.0 / power)
    )
