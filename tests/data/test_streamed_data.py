"""Data larger than memory_limit: the same batches and the same law, whatever they are read from."""

from __future__ import annotations

import numpy as np
import pytest

from tati_re import InputError, Simulation
from tati_re.core.backend import keras, tf
from tati_re.data import load_data
from tati_re.data.disk_arrays import Store, on_disk
from tati_re.posterior.device_data import StreamedInputs
from tati_re.system import batch_norm

GENERATOR = np.random.default_rng(3)
X = GENERATOR.integers(0, 256, (90, 4, 4), dtype=np.uint8)
Y = np.arange(90) % 3
LOW = 0.0005
RUN = {"step_size": 0.003, "record_every": 1, "trajectory_every": 1, "output": None}


def model():
    keras.utils.set_random_seed(2)
    layers = [keras.Input((4, 4)), keras.layers.Flatten(), keras.layers.Dense(3)]
    return keras.Sequential(layers)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """The same 90 images as an NPZ file and as two TFRecord files."""
    folder = tmp_path_factory.mktemp("images")
    np.savez(folder / "images.npz", x=X, y=Y)
    for k, part in enumerate((slice(0, 40), slice(40, 90))):
        with tf.io.TFRecordWriter(str(folder / f"part{k}.tfrecord")) as writer:
            for pixels, label in zip(X[part], Y[part], strict=True):
                features = {
                    "image_raw": tf.train.Feature(
                        bytes_list=tf.train.BytesList(value=[pixels.tobytes()])
                    ),
                    **{
                        name: tf.train.Feature(int64_list=tf.train.Int64List(value=[int(value)]))
                        for name, value in (
                            ("label", label),
                            ("height", 4),
                            ("width", 4),
                            ("depth", 1),
                        )
                    },
                }
                writer.write(
                    tf.train.Example(
                        features=tf.train.Features(feature=features)
                    ).SerializeToString()
                )
    return folder


def simulation(data, memory_limit: float, **options) -> Simulation:
    given = {
        "execution": "graph",
        "seed": 1,
        "verbose": 0,
        "num_walkers": 2,
        "batch_size": 16,
        **options,
    }
    return Simulation(given.pop("model", None) or model(), data, memory_limit=memory_limit, **given)


def test_a_streamed_run_is_that_in_memory_and_goes_on_byte_for_byte(images, tmp_path):
    """Own mini-batches for each walker, a short batch at the end of each epoch, a stop in the
    middle.
    """
    data = str(images / "images.npz")
    kept, streamed = simulation(data, 100.0), simulation(data, LOW)
    assert (
        not kept.system.streamed and streamed.system.streamed and on_disk(streamed.dataset.inputs)
    )
    assert kept.dataset.fingerprint() == streamed.dataset.fingerprint()
    for sim, folder, steps in (
        (kept, "kept", 30),
        (streamed, "streamed", 30),
        (simulation(data, LOW), "half", 13),
    ):
        sim.sample(**RUN | {"num_steps": steps, "output": str(tmp_path / folder)})
    resumed = Simulation.resume(str(tmp_path / "half"), num_steps=30)
    assert resumed.manifest["execution"] == "graph" and "reads the rows" in " ".join(
        streamed_notices(streamed)
    )
    for name in ("run.csv", "trajectory.csv", "averages.csv"):
        assert (tmp_path / "half" / name).read_bytes() == (
            tmp_path / "streamed" / name
        ).read_bytes()
        # TensorFlow fuses other operations where it knows the examples: equal up to rounding.
        tables = [
            np.genfromtxt(tmp_path / which / name, delimiter=",", skip_header=1)
            for which in ("kept", "streamed")
        ]
        np.testing.assert_allclose(*tables, rtol=1e-4, atol=1e-5)
    assert kept.score().tolist() == streamed.score().tolist()


def streamed_notices(sim: Simulation) -> list[str]:
    return sim.system.potential(sim.options).notices()


def test_rows_in_another_order_are_caught(images, monkeypatch):
    """A reader that loses which label belongs to which image."""
    data = str(images / "images.npz")
    right = simulation(data, LOW).loss()
    read = StreamedInputs._read

    def sorted_rows(self, indices):
        return read(self, np.sort(indices, axis=None).reshape(indices.shape))

    monkeypatch.setattr(StreamedInputs, "_read", sorted_rows)
    assert not np.allclose(simulation(data, LOW).loss(), right, rtol=1e-3)


def test_sums_over_all_data_go_piece_by_piece(images):
    """HMC's energies and gradients, the accuracy and the loss of the test set, in pieces of 3 of
    72 examples.
    """
    data = str(images / "images.npz")
    kept, streamed = (
        simulation(data, limit, batch_size=None, dtype="float64") for limit in (100.0, LOW)
    )
    potential = streamed.system.potential(streamed.options)
    assert potential.streamed and potential.train.piece(potential.most_at_once) == 3
    np.testing.assert_allclose(streamed.potential(), kept.potential(), rtol=1e-12)
    np.testing.assert_allclose(streamed.gradients(), kept.gradients(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(streamed.score(), kept.score(), rtol=1e-12)
    there = [tf.constant(sim.walkers.position) for sim in (kept, streamed)]
    both = [sim.system.potential(sim.options) for sim in (kept, streamed)]
    for name in ("validation", "mean_loss"):
        found = [
            getattr(each, name)(position, ()).numpy()
            for each, position in zip(both, there, strict=True)
        ]
        np.testing.assert_allclose(found[0], found[1], rtol=1e-12)
    which = tf.constant([3, 71, 40])
    found = [
        each.examples(position, which, ()).numpy()
        for each, position in zip(both, there, strict=True)
    ]
    np.testing.assert_allclose(*found, rtol=1e-12)


@pytest.mark.parametrize(
    "options",
    [{"sampler": "mCCAdL"}, pytest.param({"walker_batches": "shared"}, marks=pytest.mark.slow)],
    ids=str,
)
def test_what_else_reads_examples_reads_the_same(options):
    """Gradients of single examples, and batches that walkers share; from arrays."""
    runs = [
        simulation((X, Y), limit).sample(**RUN | options, num_steps=3).run_info
        for limit in (100.0, LOW)
    ]
    np.testing.assert_allclose(runs[0].to_numpy(), runs[1].to_numpy(), rtol=2e-5, atol=1e-6)


@pytest.mark.slow
def test_a_fit_reads_the_same(images):
    data = str(images / "images.npz")
    ends = []
    for limit in (100.0, LOW):
        sim = simulation(data, limit)
        sim.fit(num_steps=10, learning_rate=0.01)
        ends.append(sim.parameters.copy())
    np.testing.assert_allclose(*ends, rtol=1e-5, atol=1e-6)


def test_tfrecords_are_read_once_and_kept_on_the_disk(images):
    files = [str(images / f"part{k}.tfrecord") for k in (0, 1)]
    kept, streamed = (load_data(files, 0.2, seed=4, memory_limit=limit) for limit in (100.0, LOW))
    assert not on_disk(kept.inputs) and on_disk(streamed.inputs) and on_disk(streamed.test_inputs)
    np.testing.assert_array_equal(kept.inputs, streamed.inputs)
    np.testing.assert_array_equal(kept.test_inputs, streamed.test_inputs)
    assert streamed.inputs.dtype == np.uint8 and streamed.input_scale == pytest.approx(1 / 255)
    assert kept.fingerprint() == streamed.fingerprint()
    run = simulation(files, LOW).sample(**RUN, num_steps=2)
    assert np.isfinite(run.run_info["potential"]).all()


def test_a_tf_dataset_and_memory_maps_are_streamed(tmp_path):
    stream = tf.data.Dataset.from_tensor_slices((X, Y)).batch(7)
    spilled = load_data(stream, memory_limit=LOW)
    assert on_disk(spilled.inputs)
    np.testing.assert_array_equal(spilled.inputs, X)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    data = load_data((mapped, Y), test_fraction=0.3)
    assert on_disk(data.inputs) and on_disk(data.test_inputs) and len(data.test_inputs) == 27
    in_memory = load_data((X, Y), test_fraction=0.3)
    np.testing.assert_array_equal(data.inputs, in_memory.inputs)


def test_a_store_keeps_what_fits():
    small, large = Store(1000), Store(1000)
    rows = np.arange(60.0).reshape(30, 2)
    small.append(rows)
    for piece in np.array_split(np.tile(rows, (9, 1)), 13):
        large.append(piece)
    with pytest.raises(ValueError, match="unequal"):
        large.append(np.zeros((2, 3)))
    kept, spilled = small.finished(), large.finished()
    assert not on_disk(kept) and on_disk(spilled)
    np.testing.assert_array_equal(spilled, np.tile(rows, (9, 1)))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"execution": "xla"},
            "execution: XLA cannot read data larger than memory_limit from the host.",
        ),
        (
            {"standardize": "inputs"},
            "standardize, input_columns: data larger than memory_limit cannot be transformed.",
        ),
        ({"memory_limit": 0.0}, "memory_limit is out of range."),
    ],
)
def test_what_cannot_be_streamed_is_refused(images, options, sentence):
    with pytest.raises(InputError) as caught:
        simulation(str(images / "images.npz"), **{"memory_limit": LOW} | options).sample(
            num_steps=2
        )
    assert sentence in str(caught.value)


def test_layers_that_train_on_all_data_at_once_are_refused():
    layers = [
        keras.Input((4, 4)),
        keras.layers.Flatten(),
        keras.layers.BatchNormalization(),
        keras.layers.Dense(3),
    ]
    sim = simulation((X, Y), LOW, model=keras.Sequential(layers), batch_size=None)
    with pytest.raises(
        InputError, match="layers that behave differently in training need all examples at once"
    ):
        sim.fit(optimizer="sgd", num_steps=2)


def test_augmentation_acts_in_fit_and_is_said_to_be_off_in_sampling():
    """Random flips change what a fit sees and not what is sampled."""

    def network(flips: bool):
        keras.utils.set_random_seed(2)
        front = [keras.layers.RandomFlip("horizontal", seed=1)] if flips else []
        shape = [
            keras.layers.Reshape((4, 4, 1)),
            *front,
            keras.layers.Flatten(),
            keras.layers.Dense(3),
        ]
        return keras.Sequential([keras.Input((4, 4)), *shape])

    values, ends = [], []
    for flips in (True, False):
        sim = simulation((X, Y), 100.0, model=network(flips), num_walkers=1)
        values.append(sim.potential())
        said = batch_norm.sentence(sim.options, sim.system.flat)
        assert said == (
            "Sampling keeps unchanged examples without RandomFlip, which acts only in a fit."
            if flips
            else None
        )
        sim.fit(num_steps=4, learning_rate=0.01)
        ends.append(sim.parameters.copy())
    assert values[0] == pytest.approx(values[1], rel=1e-6)
    assert np.abs(ends[0] - ends[1]).max() > 1e-4
