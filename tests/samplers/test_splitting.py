"""Splitting words: which are valid, what one step computes, and how many gradients it costs."""

from __future__ import annotations

from decimal import Decimal, localcontext
from itertools import pairwise, product
from types import SimpleNamespace

import numpy as np
import pytest

from tati_re.core.errors import InputError
from tati_re.options.make import make_options
from tati_re.samplers import SGLD, HamiltonianMonteCarlo, Splitting, make_sampler, parse_word
from tati_re.samplers.splitting import LangevinState, drift, kick, ornstein_uhlenbeck
from tati_re.samplers.thermostat import damp, drift_in_bath, heat_up, thermostatted_bath
from tati_re.samplers.wrappers.coordinates import extend
from tests.scenarios import NumpyEvaluate, NumpyNoise, rung_of

WALKERS, PARAMETERS, FRICTION = 4, 3, 1.3
STEP_SIZE = np.array([0.1, 0.2, 0.3, 0.4])
TEMPERATURE = np.array([0.5, 1.0, 2.0, 3.0])
H, T = STEP_SIZE[:, None], TEMPERATURE[:, None]


def is_method(word: str) -> bool:
    return set(word) in (set("ABO"), set("BU")) and all(a != b for a, b in pairwise(word))


WORDS = [
    word
    for length in range(2, 7)
    for letters in product("ABOU", repeat=length)
    if is_method(word := "".join(letters))
]


def gradient(q):
    return q**3 + q


def evaluate_and_noise(seed=1):
    return NumpyEvaluate(rung_of(STEP_SIZE, TEMPERATURE, numpy=True)), NumpyNoise(seed)


def start_of(sampler, seed=1):
    evaluate, noise = evaluate_and_noise(seed)
    position = np.random.default_rng(0).normal(size=(WALKERS, PARAMETERS))
    return sampler.init(position, evaluate, noise), evaluate


# -----------------------------------------------------------------------------------------------------------
# the parser


@pytest.mark.parametrize(
    "word",
    [
        "BAOAB",
        "ABOBA",
        "OBABO",
        "BAO",
        "ABO",
        "OABAO",
        "BAOA",
        "AOBOA",
        "BABO",
        "ABAO",
        "BAOABAO",
        "BADODAB",
        "BACOCAB",
        "UBU",
        "BUB",
        "BUDUB",
    ],
)
def test_valid_words_come_back_as_they_are(word):
    assert parse_word(word) == parse_word(word.lower()) == word


def test_aliases_are_expanded():
    assert (parse_word("GLA1"), parse_word("gla2")) == ("BAO", "BABO")
    assert parse_word("MCCADL") == "BACDODCAB"
    assert (Splitting("gla2").name, Splitting("mccadl").name) == ("GLA2", "mCCAdL")


def test_the_valid_words_are_those_with_every_letter_and_no_neighbours_alike():
    for length in range(1, 6):
        for letters in product("ABOU", repeat=length):
            word = "".join(letters)
            try:
                assert parse_word(word) == word and is_method(word), word
            except InputError:
                assert not is_method(word), word


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        (
            "BAXAB",
            (
                "sampler: a splitting word contains unknown letters 'X'. Received: 'BAXAB'. "
                "Expected: letters A (drift), B (kick), O (Ornstein-Uhlenbeck), U (A and O), "
                "D (thermostat) and C (damping by covariance), such as BAOAB, "
                "UBU or BADODAB."
            ),
        ),
        (
            "BA-X",
            (
                "sampler: a splitting word contains unknown letters '-', 'X'. Received: "
                "'BA-X'. Expected: letters A (drift), B (kick), O (Ornstein-Uhlenbeck), U (A "
                "and O), D (thermostat) and C (damping by covariance), such as "
                "BAOAB, UBU or BADODAB."
            ),
        ),
        (
            "BOB",
            (
                "sampler: without A the parameters do not move. Received: 'BOB'. Expected: "
                "each of A, B, O at least once, or B and U."
            ),
        ),
        (
            "AOA",
            (
                "sampler: without B the potential has no effect. Received: 'AOA'. Expected: "
                "each of A, B, O at least once, or B and U."
            ),
        ),
        (
            "BAB",
            (
                "sampler: without O no heat bath sets the temperature (HMC is the method "
                "without a bath). Received: 'BAB'. Expected: each of A, B, O at least once, "
                "or B and U."
            ),
        ),
        (
            "BADAB",
            "sampler: without O nothing uses the friction that the thermostat D adapts. Received: 'BADAB'. "
            "Expected: each of A, B, O at least "
            "once, or B and U.",
        ),
        (
            "BACAB",
            (
                "sampler: without O nothing heats what C damps. Received: 'BACAB'. Expected: "
                "each of A, B, O at least once, or B and U."
            ),
        ),
        (
            "UBOU",
            (
                "sampler: U combines drift and bath, so O would repeat it. Received: 'UBOU'. "
                "Expected: U, or A and O, such as UBU or BAOAB."
            ),
        ),
        (
            "UDU",
            (
                "sampler: without B the potential has no effect. Received: 'UDU'. Expected: "
                "each of A, B, O at least once, or B and U."
            ),
        ),
        (
            "BADDOAB",
            "sampler: DD applies D twice in a row; a single D does the same. Received: 'BADDOAB'. Expected: BADOAB.",
        ),
        (
            "BAAOB",
            "sampler: AA applies A twice in a row; a single A does the same. Received: 'BAAOB'. Expected: BAOB.",
        ),
        (
            "boooaab",
            "sampler: OO applies O twice in a row; a single O does the same. Received: 'boooaab'. Expected: BOAB.",
        ),
    ],
)
def test_a_wrong_word_gets_a_sentence_that_says_why(word, sentence):
    with pytest.raises(InputError) as error:
        parse_word(word)
    assert str(error.value) == sentence


@pytest.mark.parametrize("word", ["", " ", "B A O A B"])
def test_empty_and_spaced_words_are_refused(word):
    with pytest.raises(InputError, match=f"Received: '{word}'"):
        parse_word(word)


@pytest.mark.parametrize("friction", [0.0, -1.0, float("nan")])
def test_a_bath_without_friction_is_refused(friction):
    with pytest.raises(InputError, match=r"friction: .* Received: .* Expected: a number above 0"):
        Splitting("BAOAB", friction)


@pytest.mark.parametrize("mass", [0.0, -1.0, float("nan")])
def test_a_thermal_mass_is_above_0_and_needs_a_thermostat(mass):
    with pytest.raises(
        InputError, match=r"^thermal_mass is out of range. Received: .* Expected: a number above 0"
    ):
        Splitting("BADODAB", thermal_mass=mass)
    with pytest.raises(
        InputError, match=r"^thermal_mass: this word has no thermostat. Received: BAOAB."
    ):
        Splitting("BAOAB", thermal_mass=1.0)


def test_names_become_samplers():
    options = SimpleNamespace(
        friction=2.0,
        num_leapfrog_steps=7,
        leapfrog_jitter=0.0,
        walls="reject",
        thermal_mass=5.0,
        thermostat_bath="friction",
        target_acceptance=None,
    )
    assert isinstance(make_sampler("sgld", options), SGLD)
    assert make_sampler("HMC", options).lengths == (7, 7)
    assert make_sampler("hmc", options).name == HamiltonianMonteCarlo.name
    assert make_sampler("oabao", options).word == "OABAO"
    assert make_sampler("GLA1", options).friction == 2.0
    assert (
        make_sampler("badodab", options).thermal_mass
        == make_sampler("MCCADL", options).thermal_mass
        == 5.0
    )
    assert make_sampler("BACOCAB", options).thermal_mass is None
    with pytest.raises(InputError, match="without O no heat bath"):
        make_sampler("BAB", options)
    with pytest.raises(InputError, match=r"unknown name.*'SGLD'.*Received: 'SGDL'"):
        make_sampler("SGDL", options)


# ----------------------------------------------------------------------------------------------------------
# the letters


def test_each_letter_is_its_formula():
    random = np.random.default_rng(5)
    q, p, g = random.normal(size=(3, WALKERS, PARAMETERS))
    evaluate, noise = evaluate_and_noise()
    zeros = np.zeros(WALKERS)
    state = LangevinState(q, p, g, zeros, zeros, zeros, evaluate.rung)
    moved = drift(state, evaluate, 0.5 * H)
    np.testing.assert_allclose(moved.position, q + 0.5 * H * p, rtol=0, atol=1e-12)
    assert moved.momentum is p
    kicked = kick(state, 0.5 * H)
    np.testing.assert_allclose(kicked.momentum, p - 0.5 * H * g, rtol=0, atol=1e-12)
    assert kicked.position is q
    bathed = ornstein_uhlenbeck(state, noise, FRICTION * H)
    c = np.exp(-FRICTION * H)
    np.testing.assert_allclose(
        bathed.momentum, c * p + np.sqrt((1 - c**2) * T) * noise.drawn[0], rtol=0, atol=1e-12
    )
    assert bathed.position is q


def test_a_tiny_friction_keeps_the_digits_of_the_noise():
    """1 - c² loses every digit in float32 where γt = 1e-9; the spread must still be sqrt(2 γ t
    T).
    """
    values = np.zeros((1, 1), np.float32)
    rung = rung_of(np.array([1.0]), 1.0, numpy=True)
    noise = NumpyNoise(0, np.float32)
    one = np.zeros(1)
    state = ornstein_uhlenbeck(
        LangevinState(values, values, values, one, one, one, rung), noise, np.float32(1e-9)
    )
    np.testing.assert_allclose(state.momentum, np.sqrt(2e-9) * noise.drawn[0], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("turn", [1e-12, 1e-5, 0.0999, 0.1001, 3.0, 60.0, -0.5])
def test_drift_and_bath_keep_their_digits(turn, dtype):
    """Step and covariance of U for frictions from next to none to overwhelming, and for a
    thermostat below 0, against 50 digits: within 1e-10 in float64 and 1e-6 in float32. At γt =
    1e-12 it is A.
    """
    bath, time, temperature = 0.7, 0.3, 2.0
    with localcontext(prec=50):
        a, t, heat = Decimal(turn), Decimal(time), Decimal(2 * bath * temperature)
        c, xi = (-a).exp(), a / t
        exact = [(1 - c) / xi, c, heat / (2 * xi) * (1 - c**2), heat / (2 * xi**2) * (1 - c) ** 2]
        exact = np.array(
            [*map(float, exact), heat / (2 * xi**3) * (2 * a - 3 + 4 * c - c**2)], float
        )
    nowhere, (start, first, second) = np.zeros((3, 1), dtype), np.eye(3, dtype=dtype)[..., None]
    state = LangevinState(
        nowhere, start, nowhere, 0, 0, 0, rung_of(np.full(3, time), temperature, True)
    )
    given = iter([first, second])
    noise = SimpleNamespace(normal=lambda shape: next(given))
    moved = drift_in_bath(
        state, evaluate_and_noise()[0], noise, bath, np.full(3, turn / time), np.full(3, time)
    )
    q, p = moved.position[:, 0].astype(float), moved.momentum[:, 0].astype(float)
    assert moved.position.dtype == moved.momentum.dtype == dtype and p[2] == 0
    found = np.array([q[0], p[0], p[1] ** 2, q[1] * p[1], q[1] ** 2 + q[2] ** 2])
    np.testing.assert_allclose(found, exact, rtol=1e-10 if dtype is np.float64 else 1e-6)


def test_thermostat_and_damping_are_their_formulas():
    random = np.random.default_rng(6)
    q, p, g, v = random.normal(size=(4, WALKERS, PARAMETERS))
    evaluate, noise = evaluate_and_noise()
    zeros, xi = np.zeros(WALKERS), np.array([-0.7, 0.0, 1e-9, 2.0])
    state = LangevinState(q, p, g, zeros, zeros, zeros, evaluate.rung)
    state = extend(state, thermostat=xi, gradient_variance=v**2, variance_before=g**2)
    time = 0.5 * STEP_SIZE
    for given, mass in ((None, PARAMETERS), (2.5, 2.5)):
        warmer = heat_up(state, time, given)
        change = time * ((p**2).sum(1) - PARAMETERS * TEMPERATURE) / mass
        np.testing.assert_allclose(warmer.thermostat, xi + change, rtol=1e-13)
        assert warmer.momentum is p
    damped, left = damp(state, time, q)
    now, before = (np.exp(-0.5 * H * H * variance / (2 * T)) for variance in (v**2, g**2))
    np.testing.assert_allclose(left, before * q, rtol=1e-13)
    np.testing.assert_allclose(damped.momentum, now * (p - q) + before * q, rtol=0, atol=1e-13)
    bathed = thermostatted_bath(state, noise, FRICTION, time)
    variance = [
        (1 - np.exp(-2 * x * t)) / x if abs(x) > 1e-3 else 2 * t
        for x, t in zip(xi, time, strict=True)
    ]
    spread = np.sqrt(FRICTION * TEMPERATURE * variance)[:, None]
    expected = np.exp(-xi * time)[:, None] * p + spread * noise.drawn[0]
    np.testing.assert_allclose(bathed.momentum, expected, rtol=1e-8)


@pytest.mark.parametrize(("word", "with_thermostat"), [("BAOAB", "BADODAB"), ("UBU", "UDBDU")])
def test_a_thermostat_at_the_friction_is_the_plain_bath(word, with_thermostat):
    """Words without C and D keep their state; with an infinitely heavy thermostat BADODAB is BAOAB,
    step by step.
    """
    plain, heavy = Splitting(word, FRICTION), Splitting(with_thermostat, FRICTION, 1e30)
    (state, evaluate), (other, _) = start_of(plain), start_of(heavy)
    assert type(state) is LangevinState
    for seed in range(3):
        state, _ = plain.step(state, evaluate, NumpyNoise(seed))
        other, _ = heavy.step(other, evaluate, NumpyNoise(seed))
    np.testing.assert_allclose(other.position, state.position, rtol=0, atol=1e-12)
    np.testing.assert_allclose(other.momentum, state.momentum, rtol=0, atol=1e-12)
    np.testing.assert_allclose(other.thermostat, FRICTION, rtol=1e-12)


# ----------------------------------------------------------------------------------------------------------
# whole steps


def bath(p, t, r):
    c = np.exp(-FRICTION * t)
    return c * p + np.sqrt((1 - c**2) * T) * r


def drift_and_bath(q, p, t, r):
    """U by the Cholesky factor of its covariance, momentum first."""
    eta = np.exp(-FRICTION * t)
    of_p, both = 1 - eta**2, (1 - eta) ** 2 / FRICTION
    of_q = (2 * FRICTION * t - 3 + 4 * eta - eta**2) / FRICTION**2
    noise = (
        np.sqrt(of_p) * r[0],
        both / np.sqrt(of_p) * r[0] + np.sqrt(of_q - both**2 / of_p) * r[1],
    )
    return q + (1 - eta) / FRICTION * p + np.sqrt(T) * noise[1], eta * p + np.sqrt(T) * noise[0]


def ubu(q, p, r):
    q, p = drift_and_bath(q, p, H / 2, r[:2])
    return drift_and_bath(q, p - H * gradient(q), H / 2, r[2:])


def baoab(q, p, r):
    p = p - H / 2 * gradient(q)
    q = q + H / 2 * p
    p = bath(p, H, r[0])
    q = q + H / 2 * p
    return q, p - H / 2 * gradient(q)


def bao(q, p, r):
    p = p - H * gradient(q)
    return q + H * p, bath(p, H, r[0])


def obabo(q, p, r):
    p = bath(p, H / 2, r[0]) - H / 2 * gradient(q)
    for_q = bath(np.zeros_like(p), H / 2, r[1])
    q = q + H * p
    p = p - H / 2 * gradient(q)
    return q, np.exp(-FRICTION * H / 2) * p + for_q


class Thermostatted:
    """BADODAB and mCCAdL written out, with the state of the thermostat between steps."""

    def __init__(self, damped: bool) -> None:
        self.xi, self.damped, self.variances = np.full(WALKERS, FRICTION), damped, None

    def thermostat(self, p):
        self.xi = self.xi + STEP_SIZE / 2 * ((p**2).sum(1) / PARAMETERS - TEMPERATURE)

    def damping(self, q):
        """exp of the variance where the last gradient was evaluated, and of the one before."""
        last, before = self.variances or [0.1 + 0.05 * q**2] * 2
        return (
            np.exp(-H / 2 * H / (2 * T) * variance) if self.damped else 1.0
            for variance in (last, before)
        )

    def __call__(self, q, p, r):
        now, before = self.damping(q)
        own, older = -H * gradient(q), p + H / 2 * gradient(q)
        q_end = q + H / 2 * (own + older)
        own, older = before * own, now * older
        self.thermostat(own + older)
        xi = self.xi[:, None]
        own, older = np.exp(-xi * H) * own, np.exp(-xi * H) * older
        older = older + np.sqrt(FRICTION * T * (1 - np.exp(-2 * xi * H)) / xi) * r[0]
        self.thermostat(own + older)
        p = before * own + now * older
        q_end = q_end + H / 2 * p
        self.variances = [0.1 + 0.05 * q_end**2, 0.1 + 0.05 * q**2]
        return q_end, p - H / 2 * gradient(q_end)


def aboba(q, p, r):
    q = q + H / 2 * p
    force = -gradient(q)
    p = bath(p + H / 2 * force, H, r[0]) + H / 2 * force
    return q + H / 2 * p, p


@pytest.mark.parametrize(
    ("word", "formula"),
    [
        ("BAOAB", baoab),
        ("BAO", bao),
        ("OBABO", obabo),
        ("ABOBA", aboba),
        ("UBU", ubu),
        ("BADODAB", Thermostatted(False)),
        ("mCCAdL", Thermostatted(True)),
    ],
)
def test_three_steps_equal_the_formula_written_out(word, formula):
    """To 1e-12 in numpy; three steps, so that a gradient carried over from the wrong place is
    seen.
    """
    sampler = Splitting(word, FRICTION)
    state, evaluate = start_of(sampler)
    q, p = state.position, state.momentum
    for seed in range(3):
        noise = NumpyNoise(seed)
        state, info = sampler.step(state, evaluate, noise)
        q, p = formula(q, p, noise.drawn)
        np.testing.assert_allclose(state.position, q, rtol=0, atol=1e-12)
        np.testing.assert_allclose(state.momentum, p, rtol=0, atol=1e-12)
        assert info == (None, None)


def test_sgld_equals_the_formula_written_out():
    state, evaluate = start_of(SGLD())
    q = state.position
    for seed in range(3):
        noise = NumpyNoise(seed)
        state, _ = SGLD().step(state, evaluate, noise)
        q = q - H * gradient(q) + np.sqrt(2 * H * T) * noise.drawn[0]
        np.testing.assert_allclose(state.position, q, rtol=0, atol=1e-12)
        np.testing.assert_allclose(state.gradient, gradient(q), rtol=0, atol=1e-12)


def test_first_momenta_have_the_temperature_of_their_walker():
    for word in ("BAOAB", "ABOBA"):
        sampler = Splitting(word)
        evaluate, noise = evaluate_and_noise()
        state = sampler.init(np.zeros((WALKERS, PARAMETERS)), evaluate, noise)
        np.testing.assert_allclose(state.momentum, np.sqrt(T) * noise.drawn[0], rtol=1e-15)


@pytest.mark.parametrize("length", [2, 3, 4, 5, 6])
def test_every_word_is_its_letters_and_costs_what_it_says(length):
    """All words of this length, three steps each: each letter for h divided by its number, with the
    force where the walker stands; as many gradients as `gradients_per_step`, one for each drift
    that a kick follows, and current gradients where `current` says so.
    """
    for word in (word for word in WORDS if len(word) == length):
        sampler = Splitting(word, FRICTION)
        state, evaluate = start_of(sampler)
        q, p = state.position, state.momentum
        evaluate.calls = 0
        for seed in range(3):
            noise = NumpyNoise(seed)
            state, _ = sampler.step(state, evaluate, noise)
            waiting = list(noise.drawn)
            for letter in word:
                t = H / word.count(letter)
                if letter == "A":
                    q = q + t * p
                elif letter == "B":
                    p = p - t * gradient(q)
                elif letter == "U":
                    q, p = drift_and_bath(q, p, t, [waiting.pop(0), waiting.pop(0)])
                else:
                    p = bath(p, t, waiting.pop(0))
            assert not waiting, word
            np.testing.assert_allclose(state.position, q, rtol=0, atol=1e-12, err_msg=word)
            np.testing.assert_allclose(state.momentum, p, rtol=0, atol=1e-12, err_msg=word)
            if sampler.current:
                np.testing.assert_allclose(
                    state.gradient, gradient(q), rtol=0, atol=1e-12, err_msg=word
                )
        without_baths = word.replace("O", "")
        needed = sum(
            pair in (("A", "B"), ("U", "B")) for pair in pairwise(without_baths[-1] + without_baths)
        )
        assert evaluate.calls == 3 * sampler.gradients_per_step == 3 * needed, word
    cheap = (
        "BAOAB",
        "ABOBA",
        "UBU",
        "BUB",
        "BUDUB",
        "OBABO",
        "BAO",
        "GLA2",
        "BADODAB",
        "mCCAdL",
        "ABDODBA",
    )
    assert {Splitting(word).gradients_per_step for word in cheap} == {1.0}


@pytest.mark.parametrize("name", ["CCAdL", "SGNHT", "BAOAB"])
def test_the_noise_of_the_bath_is_refused_where_there_is_no_such_choice(name):
    """Only words with D can keep it; CCAdL has a D in its name."""
    with pytest.raises(
        InputError, match=rf"^thermostat_bath: {name} has no such choice\. Received: noise\."
    ):
        make_sampler(name, make_options(thermostat_bath="noise"))
    assert (
        make_sampler("BADODAB", make_options(thermostat_bath="noise", friction=2.0)).bath_noise
        == 2.0
    )
    with pytest.raises(
        InputError, match=r"^friction: a Langevin sampler needs a heat bath\. Received: auto\."
    ):
        make_sampler("BADODAB", make_options(thermostat_bath="noise", friction="auto"))
