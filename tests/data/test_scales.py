"""What is done to data that are far from order 1 where nobody asks for it, and the noise that is
sampled by default.
"""

from __future__ import annotations

import tomllib

import numpy as np
import pytest
import tensorflow as tf

from tati_re import InputError, SamplingError, Simulation
from tati_re.coming_from_tati import Simulation as SimulationOfTati
from tati_re.core.backend import keras
from tati_re.data import Dataset, load_data
from tati_re.data.preparation import Preparation, Standard
from tati_re.data.standardizing import automatic, of_order_one, skewed_targets_notes, standardized
from tati_re.options.table import OPTIONS
from tati_re.posterior.noise_level import NoisePrior
from tati_re.runs import manifest

RANDOM = np.random.default_rng(3)
N = 200
NEAR = RANDOM.normal(0.5, 1.2, (N, 3))
FAR = np.column_stack(
    [RANDOM.normal(1000, 50, N), RANDOM.integers(0, 2, N), RANDOM.normal(0, 1e-3, N)]
)
VALUES = 300 + 40 * RANDOM.normal(size=N)
QUICK = {"verbose": 0, "execution": "graph", "hidden": [3], "seed": 1}


def settled(inputs, targets, given=False, kept="", **more) -> str:
    return automatic(Dataset.from_arrays(inputs, targets, **more), given, kept)[0]


def said(inputs, targets, given=False, kept="", **more) -> str | None:
    return automatic(Dataset.from_arrays(inputs, targets, **more), given, kept)[1]


def test_columns_of_order_one():
    edge = np.sqrt(10)
    column = np.resize([-1.0, 1.0], N)[:, None]
    assert of_order_one(0.999 * edge * column) and not of_order_one(1.001 * edge * column)
    assert of_order_one(column / edge * 1.001) and not of_order_one(column / edge * 0.999)
    assert of_order_one(column + 0.999 * edge) and not of_order_one(column + 1.001 * edge)
    rare = (np.arange(N) == 7)[:, None] * 1.0
    assert of_order_one(rare) and not of_order_one(2 * rare), "0 and 1 alone are left"
    assert of_order_one(np.full((N, 1), 3.0)) and not of_order_one(np.full((N, 1), 4.0)), (
        "a constant by its mean"
    )
    assert of_order_one(np.full((N, 1), 0.1)) and of_order_one(np.full((N, 1), 1e300) * column)


def test_tables_and_what_is_none():
    classes = np.arange(N) % 3
    assert settled(NEAR, NEAR[:, 0]) == "none" and said(NEAR, NEAR[:, 0]) is None
    assert settled(FAR, VALUES) == settled(NEAR, VALUES) == "all"
    assert settled(FAR, NEAR[:, 0]) == settled(FAR, classes) == "inputs", "labels never"
    assert settled(NEAR, classes) == "none"
    assert settled(FAR, np.column_stack([NEAR[:, 0], VALUES])) == "all", "one target is enough"
    assert settled(FAR, VALUES, kept="noise_std") == "inputs"
    assert "the targets keep their units under noise_std" in str(
        said(FAR, VALUES, kept="noise_std")
    )
    assert settled(NEAR, VALUES, kept="noise_std") == "none" and "keep their units" in str(
        said(NEAR, VALUES, kept="noise_std")
    )
    outlier = NEAR.copy()
    outlier[5, 1] = 1e4
    assert settled(outlier, NEAR[:, 0]) == "inputs"
    assert settled(np.eye(N)[:, :20], NEAR[:, 0]) == "none", "one-hot rows"


def test_images_and_whole_numbers_are_scaled_for_a_network_made_for_them():
    """Pixels by one number, as in a file of bytes; other images by the mean and deviation of all
    pixels.
    """
    images, pixels = 255 * RANDOM.random((N, 8, 8)), RANDOM.integers(0, 17, (N, 64)).astype(float)
    bytes_, counts = (
        RANDOM.integers(0, 256, (N, 6, 6, 3)).astype(np.uint8),
        RANDOM.integers(0, 500, (N, 4)),
    )
    bytes_[0, 0, 0, 0], pixels[0, 0], labels = 255, 16, np.arange(N) % 2
    for inputs, mode, why in (
        (images, "inputs", "The inputs are standardized"),
        (counts, "inputs", "The inputs are standardized"),
        (pixels, "pixels", "divided by 16;"),
        (bytes_, "pixels", "divided by 255;"),
    ):
        assert settled(inputs, labels) == mode and why in str(said(inputs, labels))
        assert settled(inputs, labels, given=True) == "none"
    ready = standardized(Dataset.from_arrays(bytes_, labels), "pixels").prepared().inputs
    np.testing.assert_allclose(ready, bytes_ / 255, rtol=1e-6)
    assert ready.dtype == np.float32 and standardized(
        Dataset.from_arrays(0 * bytes_, labels), "pixels"
    )
    short = automatic(Dataset.from_arrays(bytes_, labels), False, "", bytes_.size)
    assert short[0] == "none" and "memory_limit" in str(short[1])
    assert settled(bytes_, VALUES) == "all", "with targets that are far from order 1"


def test_rows_of_many_scaled_numbers_have_no_deviation_for_each():
    """Pixels from 0 to 1 and normalized ones, with columns that hardly vary; wide tables of other
    units are tables.
    """
    rows, labels = RANDOM.random((N, 64)), np.arange(N) % 2
    rows[:, 5:25] *= 1e-3
    assert not of_order_one(rows)
    assert settled(rows, labels) == "none" and settled((rows - 0.13) / 0.31, labels) == "none"
    for inputs in (100 * rows, 1e-3 * rows, rows[:, :63], rows * np.geomspace(0.01, 5, 64)):
        assert settled(inputs, labels) == "inputs"
    assert settled(rows, VALUES) == "all", "with targets that are far from order 1"
    two = load_data((rows, labels), input_columns=["x1", "x10"], standardize="none")
    assert automatic(two, False, "")[0] == "inputs", (
        "what counts are the columns that the network sees"
    )


def test_what_is_in_order_is_left():
    words = RANDOM.integers(0, 500, (N, 4))
    assert said(RANDOM.random((N, 8, 8)), np.arange(N) % 2) is None, (
        "images from 0 to 1 are in order"
    )
    assert said(words.astype(np.uint8), np.arange(N) % 2, input_scale=1 / 255) is None
    assert settled(FAR, VALUES, given=True) == "none" and "the given model" in str(
        said(FAR, VALUES, given=True)
    )
    assert said(words, np.arange(N) % 2, given=True) is None, (
        "numbers of words are for the model that has them"
    )
    assert said(NEAR, NEAR[:, 0], given=True) is None


def test_standardized_data_do_not_move_again():
    once = standardized(Dataset.from_arrays(FAR, VALUES), "all")
    assert automatic(once, False, "") == ("none", None)
    assert of_order_one(once.prepared().inputs) and of_order_one(once.prepared().targets)
    with pytest.raises(InputError, match="standardize has an unknown value"):
        load_data((FAR, VALUES), standardize="auto")


def test_skewed_targets_are_told(capsys):
    """Of 2 exp(2 z) the skewness is large, of its logarithm that of z; nothing is said where a log
    would not help.
    """
    z = np.random.default_rng(5).normal(size=N)
    third = [float(((v - v.mean()) ** 3).mean() / v.std() ** 3) for v in (2 * np.exp(2 * z), z)]
    told = f"a skewness of {third[0]:.1f}, their logarithms of {abs(third[1]):.1f}. With Gaussian noise"
    assert (
        told in skewed_targets_notes(2 * np.exp(2 * z))[0]
        and told in skewed_targets_notes(np.c_[z + 9, 2 * np.exp(2 * z)])[0]
    )
    for targets in (
        -np.exp(2 * z),
        9 + z,
        np.exp(z / 3),
        np.full(N, 3.0),
        np.exp(2 * z) - 0.5,
        np.exp(np.exp(2 * z)),
    ):
        assert skewed_targets_notes(targets) == ()
    data, short = (
        (z[:, None], 2 * np.exp(2 * z)),
        {"num_steps": 2, "num_burnin_steps": 0, "step_size": 1e-6},
    )
    for loss, here in ((None, True), ("mean_absolute_error", False)):
        Simulation(data=data, **{**QUICK, "verbose": 1}, loss=loss).sample(**short)
        assert (told in " ".join(capsys.readouterr().out.split())) == here


@pytest.mark.slow
def test_raw_bytes_of_images_are_divided_in_a_run_its_folder_and_its_model(tmp_path):
    """Images that Keras' sets give as arrays: settled, kept by from_folder, predictions of bytes,
    the model saved.
    """
    images = RANDOM.integers(0, 256, (N, 4, 4)).astype(np.uint8)
    images[0, 0, 0] = 255
    labels = (images[:, 0, 0] > 127).astype(int)
    sim = Simulation(data=(images, labels), **QUICK)
    assert "pixels and are divided by 255" in sim.system.notes[0]
    sim.fit(num_steps=20)
    run = sim.sample(
        num_steps=4,
        step_size=1e-4,
        trajectory_every=2,
        record_every=2,
        output=str(tmp_path / "run"),
    )
    options = tomllib.loads((tmp_path / "run" / "manifest.toml").read_text())["options"]
    assert options["standardize"] == "pixels"
    again = Simulation.from_folder(
        tmp_path / "run", data=(images, labels), parameters=str(tmp_path / "run")
    )
    assert np.array_equal(again.predict(images), sim.predict(images))
    divided = Simulation(data=(images / 255, labels), **QUICK)
    divided.parameters[...] = sim.parameters
    np.testing.assert_allclose(divided.predict(images / 255), sim.predict(images), atol=1e-5)
    run.save_model("mean", tmp_path / "model.keras")
    kept = keras.models.load_model(tmp_path / "model.keras").predict(
        images.astype(np.float32), verbose=0
    )
    sim.parameters[...] = run.parameters("mean")
    np.testing.assert_allclose(kept, sim.predict(images), atol=1e-5)


def test_arrays_on_the_disk_and_streams(tmp_path):
    np.save(tmp_path / "x.npy", FAR)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    sim = Simulation(data=(mapped, np.arange(N) % 2), **QUICK)
    assert "they are on disk" in sim.system.notes[0] and sim.dataset.preparation is None
    stream = tf.data.Dataset.from_tensor_slices((FAR, VALUES)).batch(16)
    assert Simulation(data=stream, **QUICK).system.resolved(sim.options).standardize == "all"


def test_a_raw_table_is_sampled_in_its_own_units(tmp_path):
    """By its defaults: settled, said, kept by resume, from_folder and a start from the folder."""
    rows = np.column_stack([FAR, VALUES + FAR[:, 0]])
    np.savetxt(tmp_path / "own.csv", rows, delimiter=",", header="a,b,c,y", comments="")
    given = {**QUICK, "data": str(tmp_path / "own.csv")}
    sim = Simulation(**given)
    assert (
        sim.parameter_names()[-1] == "log_noise_std" and "are standardized" in sim.system.notes[0]
    )
    assert sim.parameters[-1] == pytest.approx(0.0, abs=1e-6), (
        "the noise starts at the deviation of the targets"
    )
    sim.fit(num_steps=300)
    run = sim.sample(
        num_steps=6,
        step_size=1e-3,
        trajectory_every=2,
        record_every=2,
        output=str(tmp_path / "run"),
    )
    options = tomllib.loads((tmp_path / "run" / "manifest.toml").read_text())
    assert (
        options["options"]["standardize"] == "all" and options["options"]["noise_std"] == "sampled"
    )
    assert not {"standardize", "noise_std"} & set(options["given"])
    scores, spread = run.predict().scores(), sim.dataset.test_targets.std()
    assert scores["rmse"] < spread and run.predict().noise_std.max() < 2 * spread
    again = Simulation.from_folder(tmp_path / "run")
    inputs = sim.dataset.test_inputs
    again = Simulation.from_folder(tmp_path / "run", parameters=str(tmp_path / "run"))
    assert np.array_equal(again.predict(inputs), sim.predict(inputs))
    other = Simulation(**given, parameters=str(tmp_path / "run"))
    assert (
        np.array_equal(other.predict(inputs), sim.predict(inputs))
        and "as in the run" in other.system.notes[0]
    )
    longer = Simulation.resume(str(tmp_path / "run"), 8)
    assert longer.run_info["step"].iloc[-1] == 8


@pytest.mark.parametrize("loss", ["student_t", "laplace", "log_normal", "censored_normal"])
@pytest.mark.parametrize("settings", [{}, {"batch_size": 10}])
def test_targets_far_from_zero_keep_their_differences(loss, settings):
    """In float32, numbers at 10⁸ are 8 apart, which was the resolution of such targets."""
    random = np.random.default_rng(4)
    x = random.normal(size=(60, 2))
    values = 1.5 * x[:, 0] + 0.4 * random.normal(size=60)
    far = 1e8 + values
    labels = np.column_stack([far, np.ones(60)]) if loss == "censored_normal" else far
    weights = np.ones(60) if not settings else None
    data = (x, labels) if weights is None else (x, labels, weights)
    sim = Simulation(
        data=data, hidden=[], loss=loss, dtype="float32", seed=1, verbose=0, **settings
    )
    double = Simulation(
        data=data, hidden=[], loss=loss, dtype="float64", seed=1, verbose=0, **settings
    )
    vector = 0.1 * random.normal(size=sim.num_parameters())
    losses = []
    for simulation in (sim, double):
        simulation.parameters = vector
        losses.append(float(simulation.loss()))
    assert losses[0] == pytest.approx(losses[1], abs=2e-3)


def test_a_saved_model_takes_and_gives_numbers_of_the_data(tmp_path):
    for loss in ("gaussian", "heteroscedastic_gaussian"):
        sim = Simulation(data=(FAR, np.column_stack([VALUES, NEAR[:, 0]])), loss=loss, **QUICK)
        run = sim.fit(num_steps=3, trajectory_every=1, save_model=str(tmp_path / "fit.keras"))
        run.save_model(3, tmp_path / "run.keras")
        for name in ("fit", "run"):
            saved = keras.models.load_model(tmp_path / f"{name}.keras")
            assert np.asarray(saved(FAR.astype(np.float32))) == pytest.approx(
                sim.predict(FAR), rel=1e-4, abs=1e-3
            )
        assert (
            Simulation.from_folder(run.folder, True, data=sim.objects["data"]).num_parameters()
            == sim.num_parameters()
        )
        start = Simulation(
            data=sim.objects["data"], loss=loss, parameters=str(tmp_path / "run.keras"), **QUICK
        )
        assert np.array_equal(start.predict(FAR), sim.predict(FAR))


def test_noise_is_sampled_where_the_likelihood_is_gaussian():
    def num(data=(NEAR, NEAR[:, 0]), kind=Simulation, **options) -> tuple[int, str]:
        sim = kind(data=data, **{**QUICK, "hidden": [], **options})
        return sim.num_parameters(), sim.system.resolved(sim.options).noise_std

    assert num() == (5, "sampled") and num(loss="gaussian") == (5, "sampled")
    assert num(noise_std=0.3) == (4, 0.3)
    for none in (
        {"loss": "mse"},
        {"potential": "mean_loss"},
        {"loss": keras.losses.Huber()},
        {"data": (NEAR, np.arange(N) % 2)},
        {"data": (NEAR, np.zeros(N))},
        {"kind": SimulationOfTati},
        {"step_width": 0.1, "potential": "posterior"},
    ):
        assert num(**none)[1] == 1.0, none
    assert [num(data=name)[1] for name in ("harmonic", "gaussian", "two_clusters")] == [1.0] * 3
    with pytest.raises(
        InputError, match="noise_std: the network of heteroscedastic_gaussian predicts"
    ):
        Simulation(
            data=(NEAR, VALUES), loss="heteroscedastic_gaussian", noise_std=0.1, **QUICK
        ).sample(step_size=0.001, num_steps=1)


def test_data_of_tati_keep_their_numbers():
    for name in ("squares", "two_circles", "two_clusters", "spirals", "harmonic", "gaussian"):
        assert Simulation(data=name, **{**QUICK, "hidden": []}).dataset.preparation is None
        made = load_data(name, seed=4)
        assert of_order_one(made.inputs) or name in ("harmonic", "gaussian"), "also from a file"
    assert SimulationOfTati(data=(FAR, VALUES), **QUICK).dataset.preparation is None
    assert (
        Simulation(data=(FAR, VALUES), potential="mean_loss", **QUICK).dataset.preparation is None
    )


def test_sentences_at_the_start(capsys):
    sim = Simulation(data=(FAR, VALUES), **{**QUICK, "verbose": 1}, noise_std=50.0)
    run = sim.fit(num_steps=1)
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "noise_std 50 exceeds the standard deviation of the targets" in said
        and "units under noise_std" in said
    )
    assert f"No test rows: the run trains on all {N} rows. Set test_fraction=0.2" in said
    with pytest.raises(
        InputError, match=r"no test set\. Expected: inputs to predict, or test_fraction=0.2"
    ):
        run.predict()
    sim = Simulation(data=(FAR, VALUES), test_fraction=0.2, **QUICK)
    assert len(sim.fit(num_steps=1).predict().mean) == N // 5
    assert not sim.system.notes[1:]


def test_targets_without_noise_are_told_where_a_step_diverges():
    sim = Simulation(data=(NEAR, NEAR[:, 0]), **{**QUICK, "hidden": []})
    sim.parameters[-1] = -12.0
    with pytest.raises(
        SamplingError, match=r"The noise is sampled. .* Set noise_std to a number to fix it."
    ):
        sim.sample(sampler="BAOAB", step_size=0.05, num_steps=200)


def test_the_prior_of_the_noise_keeps_it_from_zero():
    """Where all residuals vanish, U = N s + V(s) is lowest at scale √(2a/(N + 2a)); a half normal
    has none.
    """
    for shape in (1.0, 6.0):
        lowest = tf.constant(
            [[np.log(0.7) + 0.5 * np.log(2 * shape / (N + 2 * shape))]], tf.float64
        )
        gradient = NoisePrior("inverse_gamma", 0.7, shape).gradient(lowest)
        np.testing.assert_allclose(gradient, -N, rtol=1e-12)
    assert (NoisePrior("half_normal", 0.7).gradient(lowest).numpy() > -1).all()
    assert OPTIONS["noise_prior"].default == "inverse_gamma"


def test_runs_from_before_keep_what_they_had():
    """An older manifest has other defaults, which nobody gave: they are kept where they are not
    those of today.
    """
    options = {
        "standardize": "none",
        "noise_std": 1.0,
        "batch_sampling": "replacement",
        "seed": 3,
        "num_steps": 7,
    }
    stored = manifest.Manifest.of(
        {"options": options, "given": ["seed"], "dataset": {}, "loss": {"loss": "gaussian"}}
    )
    assert manifest.explicit_options(stored) == {"standardize": "none", "noise_std": 1.0, "seed": 3}
    assert manifest.explicit_options(
        stored | {"dataset": {"potential": True}, "loss": {"loss": "potential"}}
    ) == {"seed": 3}
    assert OPTIONS["standardize"].default == "auto" and OPTIONS["noise_std"].default == "sampled"
    sampled = {"options": {"noise_std": "sampled"}, "given": [], "dataset": {}}
    sampled["loss"] = {"loss": "gaussian", "noise_std": "sampled"}
    before = manifest.Manifest.of(sampled)
    kept = {"noise_prior_scale": "deviation", "noise_std": "sampled"}
    assert manifest.explicit_options(before) == kept
    sampled["options"]["noise_prior_scale"] = "auto"
    one_noise = manifest.Manifest.of(sampled)
    assert manifest.explicit_options(one_noise) == {"noise_std": "sampled"}
    sampled["options"]["quantile_level"] = 0.5
    assert manifest.explicit_options(manifest.Manifest.of(sampled)) == {}


def test_targets_that_do_not_vary_are_found_at_any_size():
    """A constant of 1e5 was predicted as 3, with a deviation of 1.4: no weights of deviation 1
    reach it.
    """
    x = np.random.default_rng(1).normal(size=(40, 2))
    options = {"hidden": [3], "num_walkers": 2, "seed": 1, "verbose": 0}
    sim = Simulation(data=(x, np.full(40, 1e5)), **options)
    sim.fit(num_steps=100)
    run = sim.sample(
        sampler="BAOAB", step_size=0.05, friction=5.0, num_steps=400, execution="graph"
    )
    predicted = run.predict(x[:5])
    np.testing.assert_allclose(predicted.mean, 1e5, atol=1.0)
    np.testing.assert_allclose(predicted.noise_std, 1.0, rtol=1e-6)
    kept = Simulation(data=(x, np.full(40, 1e5)), noise_std=2.0, **options)
    assert kept.dataset.preparation is None


def test_the_log_unit_of_targets_counts_columns_and_places():
    """A density of y is the density of y/s, divided by s, for each number of an example."""
    assert Preparation().log_unit((3,)) == 0
    one = Preparation(target_standard=Standard(np.array(1.0), np.array(4.0)))
    assert one.log_unit() == pytest.approx(np.log(4))
    two = Preparation(target_standard=Standard(np.zeros(2), np.array([2.0, 8.0])))
    assert two.log_unit((2,)) == pytest.approx(np.log(16))
    assert two.log_unit((5, 2)) == pytest.approx(5 * np.log(16))
