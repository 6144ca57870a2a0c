"""Files and options that are not right: the command says what is wrong on one line, and its status
is 2.
"""

from __future__ import annotations

import numpy as np
import pytest

from tati_re.cli import sample
from tati_re.core.backend import keras, tf

TABLES = {
    "good.csv": "a,b,label\n1,2,0\n2,3,1\n3,1,0\n4,4,1\n5,1,1\n2,2,0\n",
    "half.csv": "a,b,label\n1,2,0\n2,3,0.5\n3,1,1\n",
    "words.csv": "a,b,label\n1,2,cat\n2,3,NA\n",
    "five.csv": "a,b,label\n1,2,0\n2,3,1\n3,1,5\n",
    "one_hot.csv": "a,b,label1,label2\n1,2,1,0\n2,3,1,1\n3,1,0,1\n",
    "short_row.csv": "a,b,label\n1,2,0\n2,3\n3,1,1\n",
    "long_row.csv": "a,b,label\n1,2,0\n2,3,4,5\n3,1,1\n",
    "empty.csv": "",
    "header.csv": "a,b,label\n",
    "empty.npz": "",
    "empty.tfrecord": "",
    "unknown.toml": "step_sise = 0.1\n",
    "nested.toml": "[sampler]\nstep_size = 0.1\n",
    "twice.toml": "temperature = 2.0\ninverse_temperature = 2.0\n",
    "model.h5": "",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of files, each wrong in one way."""
    folder = tmp_path_factory.mktemp("files")
    for name, text in TABLES.items():
        (folder / name).write_text(text)
    np.savez(folder / "pickled.npz", x_train=np.array([{}], dtype=object), y_train=np.zeros(1))
    np.savez(folder / "short.npz", parameters=np.zeros(3))
    feature = {"picture": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"abc"]))}
    with tf.io.TFRecordWriter(str(folder / "keys.tfrecord")) as file:
        file.write(
            tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()
        )
    layers = keras.layers
    model = keras.Sequential([keras.Input((2,)), layers.Lambda(lambda x: 2 * x), layers.Dense(2)])
    model.save(folder / "code.keras")
    keras.Sequential([keras.Input((2,)), layers.Dense(2)]).save(folder / "good.keras")
    (folder / "saved_model").mkdir()
    return folder


@pytest.fixture(autouse=True)
def here(made, monkeypatch):
    monkeypatch.chdir(made)


CASES = {
    "labels that are no integers": (
        ["--data", "half.csv", "--num-classes", "2"],
        "labels are not integers",
        "0.5",
    ),
    "a missing label among words": (
        ["--data", "words.csv"],
        "not a class",
        "NA",
        "dropna",
    ),
    "a label outside the classes": (
        ["--data", "five.csv", "--num-classes", "2"],
        "not one of the classes",
        "0 to 1",
    ),
    "one-hot rows": (
        ["--data", "one_hot.csv"],
        "One-hot labels do not sum to one",
        "[1, 1], sum 2",
    ),
    "a Lambda layer": (
        ["--data", "good.csv", "--model", "code.keras"],
        "has a Lambda layer, which contains code",
    ),
    "a pickled NPZ": (["--data", "pickled.npz"], "pickled Python objects, which could run code"),
    "a short row": (
        ["--data", "short_row.csv"],
        "line 3 has the wrong number of cells. Received: 2. Expected: 3",
    ),
    "a long row": (
        ["--data", "long_row.csv"],
        "line 3 has the wrong number of cells. Received: 4. Expected: 3",
    ),
    "an empty CSV": (["--data", "empty.csv"], "empty.csv is empty"),
    "a header alone": (["--data", "header.csv"], "has no examples"),
    "an empty NPZ": (["--data", "empty.npz"], "cannot be read as an NPZ file"),
    "an empty TFRecord": (["--data", "empty.tfrecord"], "has no examples"),
    "a TFRecord without the keys": (
        ["--data", "keys.tfrecord"],
        "has no feature 'image_raw'",
        "picture",
    ),
    "an HDF5 model": (
        ["--data", "good.csv", "--model", "model.h5"],
        "an HDF5 file, the Keras 2 format",
    ),
    "a saved model": (
        ["--data", "good.csv", "--model", "saved_model"],
        "a folder, possibly a SavedModel",
    ),
    "a model and layers": (
        ["--data", "good.csv", "--model", "good.keras", "--hidden", "3"],
        "--model and hidden exclude each other",
    ),
    "a step without a file": (
        ["--data", "good.csv", "--parameters-step", "3"],
        "--parameters-step needs a file",
    ),
    "two starts": (
        ["--data", "good.csv", "--parameters", "short.npz", "--walker-start", "fresh"],
        "both set where walkers start",
    ),
    "an option under two names": (
        ["--data", "good.csv", "--step-size", "1", "--step_width", "1"],
        "--step_width and --step-size are two names for the same quantity",
    ),
    "two temperatures in a file": (
        ["--config", "twice.toml"],
        "are two names for the same quantity",
    ),
    "an unknown key": (
        ["--config", "unknown.toml"],
        "step_sise is not a known option. Did you mean 'step_size'?",
    ),
    "a table": (["--config", "nested.toml"], "a table may contain only options of a method"),
    "parameters of another model": (
        ["--data", "good.csv", "--parameters", "short.npz"],
        "short.npz does not match the model. Received: 3 parameters. Expected: 6 parameters.",
    ),
    "a pattern that matches nothing": (
        ["--data", "good.csv", "--fix-parameters", "nothing/*"],
        "no parameter of the model matches",
        "nothing/*",
    ),
    "a tensor of TATi that is not there": (
        ["--data", "good.csv", "--fix_parameters", "layer9/biases/Variable:0=0."],
        "no parameter of the model matches",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_command_says_what_is_wrong(made, capsys, case):
    before = sorted(path.name for path in made.iterdir())
    argv, *words = CASES[case]
    assert sample.main([*argv, "--quiet"]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("error: ") and err.count("\n") == 1 and "Traceback" not in out + err
    for word in words:
        assert word in err, err
    assert sorted(path.name for path in made.iterdir()) == before


@pytest.mark.slow
def test_a_model_of_keras_2_is_told_by_its_version(made, tmp_path, capsys):
    pytest.importorskip("tf_keras")
    import subprocess
    import sys

    # In a process of its own: importing Keras 2 warns, and leaves its mark on TensorFlow.
    code = (
        "import tf_keras as k\n"
        "k.Sequential([k.Input((2,)), k.layers.BatchNormalization(), k.layers.Dense(2)]).save('old.keras')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=made, capture_output=True)
    assert sample.main(["--data", "good.csv", "--model", "old.keras", "--quiet"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: --model was written by Keras 2.") and "saved by Keras 3" in said
    (made / "old.keras").unlink()
