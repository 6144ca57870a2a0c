"""`tati-dataset`: what it prints, writes and draws, and that what it writes is read back
exactly.
"""

import numpy as np
import pytest

from tati_re.cli import dataset as command
from tati_re.core.errors import InputError
from tati_re.data import Dataset, load_data
from tati_re.data.describing import describe_dataset
from tati_re.data.generators import gaussian
from tati_re.data.plane import two_clusters
from tati_re.data.writing import write_dataset
from tati_re.plotting import plot_points

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(capsys, *argv: str) -> str:
    assert command.main(list(argv)) == 0
    out, err = capsys.readouterr()
    assert not err
    return out


def test_make_describe_draw_and_write(folder, capsys):
    flags = ["--num-examples", "50", "--noise", "0.1", "--test-fraction", "0.2", "--seed", "1"]
    out = printed(capsys, "two_clusters", *flags, "--output", "data.csv", "--plot", "data.png")
    assert out.startswith(
        "two_clusters: 50 examples for training, 12 for testing\ninputs: 2, float64\n  x1 "
    )
    assert (
        "labels: 2 classes by sign, with one output\n  class -1        25 and 6 for testing\n"
        in out
    )
    assert out.endswith("drawn: data.png\nwritten: data.csv data-test.csv\n")
    assert (folder / "data.png").read_bytes().startswith(PNG)
    made = two_clusters(50, 1, noise=0.1, test_fraction=0.2)
    data = load_data("data.csv", test_data="data-test.csv")
    assert data.fingerprint() == made.fingerprint()
    again = printed(capsys, "--inspect", "data.csv", "--test-data", "data-test.csv")
    assert out.split("\n", 1)[1].startswith(again.split("\n", 1)[1])
    printed(capsys, "two_clusters", *flags, "--output", "data.npz")
    assert load_data("data.npz").fingerprint() == made.fingerprint()


@pytest.mark.parametrize("ending", ["csv", "npz"])
def test_names_of_classes_are_written_and_files_need_no_flag(folder, capsys, ending):
    (folder / "own.csv").write_text("x,kind\n1,versicolor\n2,rose\n3,versicolor\n")
    out = printed(capsys, "own.csv", "--output", f"again.{ending}")
    assert "  class rose              1\n  class versicolor        2\n" in out
    assert printed(capsys, "--data", f"again.{ending}").splitlines()[-2:] == out.splitlines()[-3:-1]
    assert load_data(f"again.{ending}", 0).class_names == ("rose", "versicolor")


@pytest.mark.parametrize("name", ["two_circles", "squares", "spirals"])
def test_the_other_sets_of_the_plane(folder, capsys, name):
    printed(capsys, name, "--num-examples", "20", "--plot", "a.png", "--output", "a.csv")
    assert (folder / "a.png").stat().st_size > 5000 and not (folder / "a-test.csv").exists()


def test_potentials_known_in_closed_form(folder, capsys):
    assert printed(capsys, "harmonic", "--a", "4").startswith(
        "harmonic: 1 example for training, no test set\n"
    )
    (folder / "s.csv").write_text("2,1\n1,3\n")
    printed(capsys, "gaussian", "--covariance", "s.csv", "--output", "g.csv")
    data = load_data("g.csv", 0)
    np.testing.assert_array_equal(data.inputs, gaussian(covariance=[[2, 1], [1, 3]]).inputs)
    assert data.task == "regression"
    assert (
        printed(capsys, "gaussian", "--num-dimensions", "3", "--condition", "7").count("\n  x") == 3
    )


def test_files_are_converted_and_columns_derived(capsys):
    printed(capsys, "two_circles", "--num-examples", "30", "--output", "a.csv")
    out = printed(
        capsys, "--inspect", "a.csv", "a.csv", "--input-columns", "x1^2", "--output", "b.npz"
    )
    assert out.startswith("a.csv and 1 more: 60 examples")
    whole = load_data("a.csv", 0)
    np.testing.assert_array_equal(load_data("b.npz", 0).inputs[:30, 0], whole.inputs[:, 0] ** 2)


def test_digits_are_described_as_bytes(capsys):
    out = printed(capsys, "digits", "--test-fraction", "0.2", "--output", "d.csv")
    assert (
        "digits: 1438 examples for training, 359 for testing\ninputs: 64, uint8, multiplied by 1/16\n  all "
        in out
    )
    assert load_data("d.csv", 0).inputs.max() == 1.0


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (
            [],
            "tati-dataset either makes a data set or inspects files. Received: neither. Expected: one of digits,",
        ),
        (["digits", "--inspect", "a.csv"], "Received: digits and --inspect."),
        (["spiral"], "spiral: unknown data set. Did you mean 'spirals'?"),
        (["data.csv"], "data: the file does not exist."),
        (
            ["digits", "--noise", "1"],
            "--noise does not apply to digits. Expected: --test-fraction, --seed.",
        ),
        (["harmonic", "--seed", "1"], "--seed does not apply to harmonic. Expected: --a."),
        (["squares", "--label-columns", "x"], "--label-columns does not apply to squares."),
        (
            ["squares", "--noise", "2"],
            "--noise is out of its range. Received: 2.0. Expected: a number in [0, 1].",
        ),
        (
            ["squares", "--noise", "x"],
            "--noise has the wrong type. Received: x. Expected: a number.",
        ),
        (
            ["squares", "--num-examples", "1"],
            "--num-examples: squares needs at least one point of each class. Received: 1.",
        ),
        (["squares", "--test-fraction", "1"], "--test-fraction is out of range."),
        (
            ["squares", "--nois", "1"],
            "--nois is not a known option of tati-dataset. Did you mean '--noise'?",
        ),
        (
            ["squares", "--output", "a.txt"],
            "--output: the data can only be written as .csv or .npz. Received: a.txt.",
        ),
        (
            ["squares", "--output", "no/a.csv"],
            "--output: no/a.csv cannot be written: No such file or directory.",
        ),
        (["squares", "--output", "here.csv"], "--output already exists. Received: here.csv."),
        (["squares", "--plot", "a.pdf"], "The path of a figure must end in .png."),
        (
            ["digits", "--plot", "a.png"],
            "plot: the data are not points of a plane. Received: inputs of shape (64,).",
        ),
        (["gaussian", "--covariance", "no.csv"], "--covariance: no.csv cannot be read."),
        (["gaussian", "--covariance", "here.csv"], "--covariance is not symmetric."),
        (["--inspect", "here.csv", "--noise", "1"], "--noise applies only to generated data sets."),
        (
            ["--inspect", "her.csv"],
            "data: the file does not exist. Did you mean 'here.csv'? Received: her.csv.",
        ),
        (
            ["--inspect", "here.csv", "--num-classes", "2"],
            "The labels are not integers. Received: targets[0] = 0.5.",
        ),
    ],
)
def test_bad_input_is_one_line(folder, capsys, argv, sentence):
    (folder / "here.csv").write_text("x,label\n1,0.5\n2,1\n")
    assert command.main(argv) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error: {sentence}") or sentence in err
    assert err.count("\n") == 1
    assert sorted(path.name for path in folder.iterdir()) == ["here.csv"]


def test_overwrite(folder, capsys):
    printed(capsys, "squares", "--output", "a.csv")
    first = (folder / "a.csv").read_bytes()
    printed(capsys, "squares", "--seed", "1", "--output", "a.csv", "--overwrite")
    assert (folder / "a.csv").read_bytes() != first


# The parts


def test_images_and_one_hot_labels_are_written(folder):
    images = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    one_hot = np.eye(2)
    data = Dataset.from_arrays(images, one_hot, images, one_hot, input_scale=1 / 255)
    write_dataset(data, folder / "a.npz")
    assert load_data("a.npz").fingerprint() == data.fingerprint()
    assert [path.name for path in write_dataset(data, folder / "a.csv")] == ["a.csv", "a-test.csv"]
    read = load_data("a.csv", test_data="a-test.csv")
    np.testing.assert_array_equal(read.inputs, images.reshape(2, 12) / 255)
    assert read.task == "one_hot" and read.feature_names[:2] == ("x1", "x2")


def test_regressions_are_described_and_drawn(folder):
    x = np.linspace(0, 1, 20)
    data = load_data((x, np.sin(x)), 0.2)
    assert "labels: values of a regression\n  label " in describe_dataset(data)
    assert plot_points(data).axes[0].get_ylabel() == "label"
    several = load_data((np.stack([x, x], axis=1), np.stack([x, 2 * x], axis=1)))
    assert "\n  label1 " in describe_dataset(several) and "\n  label2 " in describe_dataset(several)
    (folder / "own.csv").write_text("a,price,b\n0.5,1,1.5\n1.5,2,2.5\n2.5,3,3.25\n")
    assert "labels b: values of a regression\n  b " in describe_dataset(load_data("own.csv"))
    assert "labels price: 3 classes\n" in describe_dataset(
        load_data("own.csv", label_columns=["price"])
    )
    assert len(plot_points(several).axes) == 2  # the points and their color scale
    with pytest.raises(InputError, match="not points of a plane"):
        plot_points(load_data((x, np.stack([x, x], axis=1))))


def test_many_classes_are_counted(folder):
    data = load_data((np.zeros((60, 1)), np.arange(60)), 0, num_classes=60)
    text = describe_dataset(data)
    assert "labels: 60 classes\n  class 0          1\n" in text and text.endswith(
        "and 40 more classes"
    )
