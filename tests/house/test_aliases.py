"""TATi's names: each of its options, samplers, optimizers, losses and activations works or says
what to use.
"""

from __future__ import annotations

import numpy as np
import pytest

from tati_re import InputError, Simulation
from tati_re.cli import optimize, sample
from tati_re.cli.arguments import make_parser
from tati_re.cli.run import with_config
from tati_re.core.backend import keras
from tati_re.optimizers import make_optimizer
from tati_re.options.make import (
    OPTIMIZE,
    OPTIONS,
    SAMPLE,
    describe,
    make_options,
    read_toml,
    to_toml,
)
from tati_re.options.tati_names import ALIASES, DEFAULTS, LOSSES, OPTIMIZERS, SAMPLERS, sentences
from tati_re.samplers import make_sampler

OF_SCRIPTS = {**DEFAULTS, "potential": "mean_loss", "prior": "none"}
"""What follows from options by which a call is a script of TATi."""

TATI = {
    # data
    "batch_data_files": (
        ["a.csv", "b.csv"],
        {"data": ["a.csv", "b.csv"], "test_fraction": 0.0, **OF_SCRIPTS},
    ),
    "batch_data_file_type": ("csv", {}),
    "input_dimension": (2, {}),
    "output_dimension": (1, {}),
    # prior
    "prior_factor": (2.0, {"prior_factor": 2.0}),
    "prior_power": (2.0, {"prior_power": 2.0}),
    "prior_lower_boundary": (-1.0, {"prior_lower_boundary": -1.0}),
    "prior_upper_boundary": (1.0, {"prior_upper_boundary": 1.0}),
    # model
    "batch_size": (10, {"batch_size": 10}),
    "directions_file": ("d.csv", {"directions": "d.csv"}),
    "do_hessians": (True, OF_SCRIPTS),
    "dropout": (
        0.5,
        r"dropout is a layer here\. Received: 0\.5\. Expected: a Keras model with keras\.layers\.Dropout",
    ),
    "fix_parameters": (
        "output/biases/Variable:0=0.",
        {"fix_parameters": "output/biases/Variable:0=0."},
    ),
    "hidden_activation": ("tanh", {"activation": "tanh"}),
    "output_activation": ("tanh", {"output_activation": "tanh"}),
    "hidden_dimension": ([8, 0, 4], {"hidden": [8, 4]}),
    "in_memory_pipeline": (True, {}),
    "input_columns": (["x1", "x1^2"], {"input_columns": ["x1", "x1^2"]}),
    "loss": ("mean_squared", {"loss": "mean_squared_error"}),
    "parse_parameters_file": ("t.csv", {"parameters": "t.csv"}),
    "parse_steps": ([300], {"parameters_step": 300}),
    "seed": (426, {"seed": 426}),
    "summaries_path": ("events", {"tensorboard": "events"}),
    # common
    "averages_file": ("a.csv", {"averages_file": "a.csv"}),
    "run_file": ("r.csv", {"run_file": "r.csv"}),
    "trajectory_file": ("t.csv", {"trajectory_file": "t.csv"}),
    "burn_in_steps": (100, {"num_burnin_steps": 100}),
    "do_accumulates": (True, {}),
    "every_nth": (5, {"record_every": 5, "trajectory_every": 5}),
    "thinning": (5, {"record_every": 5, "trajectory_every": 5}),
    "inter_ops_threads": (1, {}),
    "intra_ops_threads": (2, {"threads": 2}),
    "max_steps": (200, {"num_steps": 200}),
    "number_walkers": (2, {"num_walkers": 2}),
    "progress": (True, {}),
    "restore_model": ("model.ckpt.meta", {"parameters": "model.ckpt.meta.keras"}),
    "save_model": ("model.ckpt.meta", {"save_model": "model.ckpt.meta"}),
    "sql_db": ("times.db", r"Expected: timing\.csv and manifest\.toml of the run folder"),
    "verbose": (2, {"verbose": 2}),
    # train
    "learning_rate": (0.03, {"learning_rate": 0.03}),
    "optimizer": ("GradientDescent", {"optimizer": "gradient_descent"}),
    # sampler
    "sampler": ("GeometricLangevinAlgorithm_2ndOrder", {"sampler": "GLA2"}),
    "step_width": (0.1, {"step_size": 0.1, "potential": "mean_loss", "prior": "none"}),
    "inverse_temperature": (10.0, {"inverse_temperature": 10.0}),
    "friction_constant": (5.0, {"friction": 5.0, "potential": "mean_loss", "prior": "none"}),
    "hamiltonian_dynamics_time": (0.02, {"num_leapfrog_steps": 20, "step_size": 0.001}),
    "covariance_blending": (0.1, {"covariance_blending": 0.1}),
    "covariance_after_steps": (50, {"covariance_after_steps": 50}),
    "collapse_walkers": (
        True,
        r"have no covariance\. Received: True\. Expected: walker_start same",
    ),
    "sigma": (1.0, r"Expected: sampler CCAdL or mCCAdL, and covariance_window"),
    "sigmaA": (1.0, r"Expected: sampler CCAdL or mCCAdL, and covariance_window"),
    # analysis
    "diffusion_map_method": (
        "vanilla",
        r"belongs to the analysis of a run\. .* Expected: tati-analyse",
    ),
    "number_of_eigenvalues": (4, r"Expected: tati-analyse"),
    "use_reweighting": (True, r"Expected: tati-analyse"),
}
"""The 53 options of TATi 0.9.5 with a value, and what they set here, or what the sentence says that
refuses them.
"""


def test_the_table_is_whole():
    assert len(TATI) == 54 and set(TATI) == set(ALIASES)
    assert (len(OPTIMIZERS), len(LOSSES)) == (2, 7)
    # One sampler has two spellings.
    assert len(SAMPLERS) == 8 and len(set(SAMPLERS.values())) == 7
    for name, alias in ALIASES.items():
        assert all(new in OPTIONS for new in alias.new), name
        assert alias.new or alias.instead


def check(options, name: str) -> None:
    expected = TATI[name][1]
    for new, value in expected.items():
        assert getattr(options, new) == value
    assert options.explicit == set(expected)


@pytest.mark.parametrize("name", TATI)
def test_each_option_works_in_python(name):
    value, expected = TATI[name]
    if isinstance(expected, str):
        with pytest.raises(InputError, match=rf"^{name}: .*{expected}"):
            make_options({name: value})
    else:
        check(make_options({name: value}), name)
    assert describe(name).startswith(name)


@pytest.mark.parametrize("name", TATI)
def test_each_option_works_in_a_file(name, tmp_path):
    value, expected = TATI[name]
    path = tmp_path / "run.toml"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    path.write_text(f"{name} = {text}\n")
    if isinstance(expected, str):
        with pytest.raises(InputError, match=expected):
            read_toml(path)
        return
    parser = make_parser("tati-sample", "", SAMPLE)
    check(with_config(parser.parse(["--config", str(path)])), name)


@pytest.mark.parametrize(
    "name", [name for name, alias in ALIASES.items() if alias.group != "analysis"]
)
@pytest.mark.parametrize("dashes", [False, True])
def test_each_option_works_as_a_flag(name, dashes):
    value, expected = TATI[name]
    training = ALIASES[name].group == "train"
    parser = make_parser("tati", "", OPTIMIZE if training else SAMPLE)
    words = [str(word) for word in value] if isinstance(value, list) else [str(value)]
    typed = parser.parse([f"--{name.replace('_', '-') if dashes else name}", *words])
    if isinstance(expected, str):
        with pytest.raises(InputError, match=rf"^--{name}: .*{expected}"):
            with_config(typed)
    else:
        check(with_config(typed), name)


def test_each_sampler_optimizer_and_activation_is_there():
    for theirs, ours in SAMPLERS.items():
        options = make_options(sampler=theirs, step_width=0.1)
        assert options.sampler == ours
        assert make_sampler(ours, options).name == ours
    for theirs, ours in OPTIMIZERS.items():
        options = make_options(optimizer=theirs)
        assert options.optimizer == ours
        assert make_optimizer(ours, options, [(2,)]).name == ours
    for name in ("tanh", "sigmoid", "softplus", "softsign", "elu", "relu6", "relu", "linear"):
        assert name in Simulation.get_activations()
        keras.activations.get(name)
    assert set(LOSSES) <= set(Simulation.get_losses())


# Losses of TATi on two examples with one output, or with three.
SIGNS = np.array([[1.0, 2.0], [0.5, -1.0], [2.0, 0.0], [-1.0, 1.0]])
WEIGHTS = np.array([0.6, -0.4])


def outputs_of(labels, loss: str, **options):
    sim = Simulation(
        data=(SIGNS, labels),
        loss=loss,
        dtype="float64",
        verbose=0,
        execution="graph",
        use_bias=False,
        **options,
    )
    weights = np.random.default_rng(1).normal(size=sim.num_parameters()) * 0.3
    sim.parameters = weights
    return sim, sim.predict(SIGNS)


def test_losses_of_one_output_are_those_of_tati():
    labels = np.array([0, 1, 1, 0])
    sim, z = outputs_of(labels, "sigmoid_cross_entropy")
    z = z[:, 0]
    assert sim.loss() == pytest.approx(np.mean(np.log1p(np.exp(z)) - labels * z), rel=1e-12)
    sim, p = outputs_of(labels, "log_loss", output_activation="sigmoid")
    p = p[:, 0]
    assert sim.loss() == pytest.approx(
        -np.mean(labels * np.log(p) + (1 - labels) * np.log(1 - p)), rel=1e-12
    )
    sim, z = outputs_of(labels, "hinge_loss")
    margins = (2 * labels - 1) * z[:, 0]
    assert sim.loss() == pytest.approx(np.mean(np.maximum(0, 1 - margins)), rel=1e-12)
    assert sim.score() == np.mean(margins > 0)
    signs = 2.0 * labels - 1
    sim, z = outputs_of(signs, "mean_squared")
    assert sim.loss() == pytest.approx(np.mean((signs - z[:, 0]) ** 2), rel=1e-12)
    sim, z = outputs_of(signs, "absolute_difference")
    assert sim.loss() == pytest.approx(np.mean(np.abs(signs - z[:, 0])), rel=1e-12)


def test_losses_of_several_outputs_are_those_of_tati():
    classes = np.array([0, 1, 2, 1])
    one_hot = np.eye(3)[classes]
    losses = []
    for labels in (classes, one_hot):
        sim, z = outputs_of(labels, "softmax_cross_entropy")
        log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
        losses.append(sim.loss())
        assert losses[-1] == pytest.approx(-np.mean(np.sum(one_hot * log_p, axis=1)), rel=1e-12)
    assert losses[0] == pytest.approx(losses[1], rel=1e-14)
    sim, z = outputs_of(one_hot, "cosine_distance")
    # TATi adds 1 and leaves the outputs as they are; for unit vectors the difference is that
    # constant.
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    assert sim.loss() == pytest.approx(-np.mean(np.sum(one_hot * unit, axis=1)), rel=1e-6)
    with pytest.raises(InputError, match="do not match the labels under cosine_similarity"):
        outputs_of(classes, "cosine_distance")[0].loss()


def test_the_law_of_tati_follows_from_its_names():
    for given in ({"step_width": 0.1}, {"friction_constant": 1.0}):
        options = make_options(given)
        assert (options.potential, options.prior) == ("mean_loss", "none")
        assert options.derived == {"potential", "prior"}
    for given in (
        {"step_size": 0.1},
        {"max_steps": 3},
        {"sampler": "BAOAB"},
        {"inverse_temperature": 2.0},
    ):
        assert make_options(given).potential == "posterior"
    kept = make_options(step_width=0.1, prior_std=2.0)
    assert (kept.potential, kept.prior) == ("mean_loss", "gaussian")
    explicit = make_options(step_width=0.1, potential="posterior")
    assert (explicit.potential, explicit.prior) == ("posterior", "gaussian")
    walls = make_options(step_width=0.1, prior_lower_boundary=-1.0)
    assert (walls.potential, walls.prior) == ("mean_loss", "none")


def test_what_follows_is_found_anew_when_options_change():
    options = make_options(
        step_width=0.01, hamiltonian_dynamics_time=1.0, sampler="HamiltonianMonteCarlo_2ndOrder"
    )
    assert options.num_leapfrog_steps == 100
    assert make_options(options, step_width=0.05).num_leapfrog_steps == 20
    assert make_options(options, num_leapfrog_steps=7).num_leapfrog_steps == 7
    changed = make_options(options, potential="posterior")
    assert (changed.potential, changed.prior) == ("posterior", "gaussian")
    again = make_options(to_toml_and_back(options))
    assert (again.potential, again.prior, again.num_leapfrog_steps) == ("mean_loss", "none", 100)


def to_toml_and_back(options) -> dict:
    import tomllib

    return tomllib.loads(to_toml(options))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"step_width": 0.1, "step_size": 0.2},
            "step_width and step_size are two names for the same quantity",
        ),
        (
            {"every_nth": 2, "record_every": 2},
            "every_nth and record_every are two names for the same quantity",
        ),
        (
            {"record_every": 2, "every_nth": 2},
            "every_nth and record_every are two names for the same quantity",
        ),
        (
            {"step_width": -0.1},
            "step_width is out of range. Received: -0.1. Expected: a number greater than 0 or 'auto'.",
        ),
        (
            {"max_steps": 1.5},
            "max_steps has the wrong type. Received: 1.5. Expected: an integer at least 1.",
        ),
        ({"parse_steps": [1, 2]}, "parse_steps: walkers start at one step. Received: [1, 2]."),
        ({"input_dimension": "two"}, "input_dimension has the wrong type. Received: two."),
        ({"output_dimension": float("inf")}, "output_dimension has the wrong type. Received: inf."),
        ({"hamiltonian_dynamics_time": 10**400}, "hamiltonian_dynamics_time is out of range."),
        (
            {"do_hessians": 2},
            "do_hessians has the wrong type. Received: 2. Expected: true or false.",
        ),
        (
            {"do_accumulates": 0},
            "do_accumulates: norms and energies are computed for recorded rows only.",
        ),
        ({"inter_ops_threads": 4}, "inter_ops_threads: sums are the same in every run here."),
        (
            {"batch_data_file_type": "xml"},
            "batch_data_file_type has an unknown value. Received: xml.",
        ),
        (
            {"hamiltonian_dynamics_time": 0.0},
            "hamiltonian_dynamics_time is out of range. Received: 0.0.",
        ),
        ({"step_widht": 0.1}, "step_widht is not a known option."),
    ],
)
def test_bad_values_are_told_under_the_name_that_was_used(given, sentence):
    with pytest.raises(InputError) as caught:
        make_options(given)
    assert str(caught.value).startswith(sentence)


def test_values_that_are_the_default_of_tati_are_taken():
    given = {"dropout": None, "sql_db": None, "collapse_walkers": False, "parse_steps": []}
    assert make_options(given).explicit == frozenset()
    assert make_options(verbose=0, progress=True).verbose == 1
    assert make_options(in_memory_pipeline=False).memory_limit < 1e-5


GOOD = np.random.default_rng(10).normal(size=(10, 2))


def test_a_run_says_what_follows_from_the_names(capsys):
    sim = Simulation(data=(GOOD, GOOD[:, 0]), execution="graph", step_width=0.01, verbose=2)
    sim.sample(max_steps=2, every_nth=1)
    said = capsys.readouterr().out
    assert "L = the mean loss, without the factor N = 10" in said and "V = -log prior, none" in said
    assert "step_width is TATi's name, so that potential is mean_loss and no prior" in said


def test_an_inverse_temperature_that_acts_harder_is_said():
    given = {"potential": "posterior", "inverse_temperature": 3.0}
    (said,) = sentences(make_options(step_width=0.01, **given))
    assert said.startswith(
        "inverse_temperature 3 with TATi's step_width: under potential posterior it acts N times"
    )
    (said,) = sentences(make_options(step_size=0.01, max_steps=2, **given))
    assert "with TATi's max_steps" in said
    assert sentences(make_options(step_size=0.01, num_steps=2, **given)) == []
    assert sentences(make_options(inverse_temperature=3.0, max_steps=2)) == []
    (law,) = sentences(make_options(step_width=0.01, inverse_temperature=3.0))
    assert law.startswith("step_width is TATi's name")
    (said,) = sentences(make_options(step_size=0.01, hamiltonian_dynamics_time=0.1))
    assert (
        said == "hamiltonian_dynamics_time 0.1 stands for num_leapfrog_steps 10 at step_size 0.01."
    )


def test_the_names_work_in_every_call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sim = Simulation(
        dataset=[GOOD, np.sign(GOOD[:, 0])],
        loss="mean_squared",
        verbose=0,
        execution="graph",
        input_dimension=2,
    )
    sim.set_options(
        step_width=0.05, friction_constant=10.0, sampler="GeometricLangevinAlgorithm_1stOrder"
    )
    assert (sim.options.sampler, sim.options.step_size, sim.options.potential) == (
        "GLA1",
        0.05,
        "mean_loss",
    )
    assert (sim.get_options("step_width"), sim.get_options("max_steps")) == (0.05, 1000)
    run = sim.fit(optimizer="GradientDescent", learning_rate=0.1, max_steps=4, every_nth=2)
    assert list(run.run_info["step"]) == [2, 4] and list(run.trajectory["step"]) == [2, 4]
    run = sim.sample(max_steps=4, every_nth=2, burn_in_steps=2)
    assert run.manifest["options"]["potential"] == "mean_loss"
    for call in (sim.set_options, sim.sample):
        with pytest.raises(InputError, match=r"^number_walkers cannot change after the Simulation"):
            call(number_walkers=2)
    with pytest.raises(InputError, match=r"^walker_index: a run moves all walkers"):
        sim.fit(walker_index=0)
    with pytest.raises(InputError, match=r"dropout has no value here"):
        sim.get_options("dropout")
    with pytest.raises(
        InputError,
        match=r"^input_dimension: not the system of data and network\. Received: 3\. Expected: 2,",
    ):
        Simulation(dataset=[GOOD, GOOD[:, 0]], input_dimension=3)


def test_commands_take_counted_verbosity_and_print_their_version(capsys):
    parser = make_parser("tati-sample", "", SAMPLE)
    assert parser.parse(["-v"])["verbose"] == "1"
    assert parser.parse(["-vvv"])["verbose"] == "2"
    for main in (sample.main, optimize.main):
        with pytest.raises(SystemExit, match="0"):
            main(["-V"])
    assert "--step_width" not in parser.format_help()
