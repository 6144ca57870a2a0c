"""Numbers that are written unlike numbers are no names of classes; names that look a little like
numbers are.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tati_re.core.errors import InputError
from tati_re.data import load_data
from tati_re.data.numerals import is_number, number_in, numeral_of

NUMERALS = [
    ("{:,}", [1234, 5678, 91011, 121314]),
    ("{}.234.567", [1, 2, 3, 4]),
    ("{}.234,5", [1, 2, 3, 4]),
    ("{} 234", [1, 2, 3, 4]),
    ("{}\u00a0234", [1, 2, 3, 4]),
    ("{}\u202f234", [1, 2, 3, 4]),
    ("{}'234", [1, 2, 3, 4]),
    ("12,3{},567", [1, 2, 3, 4]),
    ("{}_000", [1, 2, 3, 4]),
    ("{} cm", [9, 12, 15, 18]),
    ("{}cm", [9, 12, 15, 18]),
    ("{}.5 mg/dL", [9, 12, 15, 18]),
    ("{} °C", [9, 12, 15, 18]),
    ("{}.5x", [9, 12, 15, 18]),
    ("EUR {}.50", [9, 12, 15, 18]),
    ("{},50 €", [9, 12, 15, 18]),
    ("${}", [9, 12, 15, 18]),
    ("-${}", [9, 12, 15, 18]),
    ("({}.5)", [9, 12, 15, 18]),
    ("<{}.50", [9, 12, 15, 18]),
    ("{}:30", [9, 12, 15, 18]),
    ("{} pm", [9, 10, 11, 12]),
    ("1/{}", [9, 12, 15, 18]),
    ("{}%", [9, 12, 15, 18]),
    ("{} %", [9, 12, 15, 18]),
    ("\u2212{}.5", [9, 12, 15, 18]),
    ("- {}", [9, 12, 15, 18]),
    ("{} . 5", [9, 12, 15, 18]),
    ("{} ± 1", [9, 12, 15, 18]),
    ("{} Mar 2020", [9, 12, 15, 18]),
    ("2020-03-{:02d}", [9, 12, 15, 18]),
    ("{} × 10^5", [9, 12, 15, 18]),
]
"""Forms, and the numbers in them; each occurs ten times."""


def texts_of(form: str, numbers: list[int]) -> list[str]:
    return [form.format(number) for number in numbers] * 10


def csv_of(path, texts, column="y"):
    columns = {"x": np.arange(len(texts)) % 7, "y": texts}
    if column == "x":
        columns = {"x": texts, "y": np.arange(len(texts)) + 0.5}
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(("form", "numbers"), NUMERALS)
def test_numbers_unlike_numbers_are_no_classes(tmp_path, form, numbers):
    """In a file, a frame and an array; after rows with names as well as before; as inputs too."""
    texts = texts_of(form, numbers)
    x = np.arange(40.0)[:, None]
    frame = pd.DataFrame({"x": x[:, 0], "y": texts})
    for data in (csv_of(tmp_path / "a.csv", texts), frame, (x, texts), (x, np.array(texts))):
        with pytest.raises(InputError, match=r"Expected: .*(numbers|y\.)"):
            load_data(data)
    for others in (["low"] * 20 + texts[:20], texts[:20] + ["low"] * 20):
        for data in (csv_of(tmp_path / "b.csv", others), (x, others)):
            with pytest.raises(InputError, match=r"Expected: .*number"):
                load_data(data)
    with pytest.raises(InputError, match=r"column 'x'.*Expected: .*number"):
        load_data(csv_of(tmp_path / "c.csv", texts, "x"))


def test_one_cell_after_many_numbers_or_names_is_found_and_placed(tmp_path):
    x = np.arange(60.0)[:, None]
    for cell, words in (("9 cm", "no units"), ("<9.5", "such as <9.5"), ("1,234", "thousands")):
        numbers = [str(k / 2) for k in range(59)] + [cell]
        path = csv_of(tmp_path / "a.csv", numbers)
        with pytest.raises(
            InputError, match=rf"line 61: the cell in column 'y'.*Received: {cell}.*{words}"
        ):
            load_data(path)
        with pytest.raises(InputError, match=rf"{cell}"):
            load_data((x, numbers))
        names = ["low", "high"] * 29 + ["low", cell.replace("<", "$")]
        path = csv_of(tmp_path / "b.csv", names)
        with pytest.raises(InputError, match=r"b\.csv, line 61, column 'y' = '"):
            load_data(path)


@pytest.mark.parametrize(
    "names",
    [
        ["<=50K", ">50K"],
        ["0-17", "18-64", "65+"],
        ["<18", "18-64", ">=65"],
        ["2D", "3D"],
        ["1st", "2nd", "3rd"],
        ["7UP", "cola"],
        ["1A", "1B", "2A"],
        ["v1.5", "v2"],
        ["1.2.3", "1.2.4"],
        ["$", "$$", "$$$"],
        ["4x4", "2x4"],
        ["May", "June"],
        ["class 1", "class 2"],
        ["yes", "no"],
        ["5 stars", "4 stars"],
        ["10.0.0.1", "10.0.0.2"],
    ],
)
def test_names_with_digits_that_repeat_are_classes(tmp_path, names):
    texts = names * 10
    for data in (csv_of(tmp_path / "a.csv", texts), (np.zeros((len(texts), 1)), texts)):
        assert load_data(data, 0).class_names == tuple(sorted(names))


@pytest.mark.parametrize(
    ("form", "words"),
    [("{}-{}", "middle of each range"), ("<{}.{}", "such as <9.5"), ("{}{} stars", "plain number")],
)
def test_ranges_limits_and_suffixes_that_do_not_repeat_are_numbers(tmp_path, form, words):
    texts = [form.format(k, k + 1) for k in range(12)]
    for data in (csv_of(tmp_path / "a.csv", texts), (np.zeros((12, 1)), texts)):
        with pytest.raises(InputError, match=words):
            load_data(data)


def test_spellings_of_one_name_are_not_several_classes(tmp_path):
    for texts in (
        ["yes", "Yes", "YES", "no"] * 5,
        ["yes", "yes ", "no", "no"] * 5,
        ["stra\u00dfe", "STRASSE"] * 5,
        ["\u00e4", "a\u0308"] * 5,
        ["<=50K", "<=50K.", ">50K"] * 5,
        ["cat", "cat\u200b", "dog"] * 5,
    ):
        x = np.zeros((len(texts), 1))
        with pytest.raises(
            InputError, match=r"differ only in upper and lower case, in spaces or in a full stop"
        ):
            load_data((x, texts))
        assert load_data((x, texts), num_classes=len({*texts})).num_classes == len({*texts})
    path = csv_of(tmp_path / "a.csv", ["yes", "Yes", "YES", "no"] * 5)
    with pytest.raises(InputError, match=r"Received: 'YES', 'Yes', 'yes'\. Expected: one spelling"):
        load_data(path)
    assert load_data(path, num_classes=4).class_names == ("YES", "Yes", "no", "yes")


def test_num_classes_takes_numerals_as_names(tmp_path):
    texts = ["9 cm", "12 cm"] * 10
    for data in (csv_of(tmp_path / "a.csv", texts), (np.zeros((20, 1)), texts)):
        assert load_data(data, 0, num_classes=2).class_names == ("12 cm", "9 cm")
        with pytest.raises(InputError, match=r"num_classes.*texts .*class names"):
            load_data(data)
    with pytest.raises(InputError, match="a name in all rows"):
        load_data((np.zeros((20, 1)), ["9 cm", ""] * 10), num_classes=2)


def test_texts_that_do_not_repeat_are_asked_about(tmp_path):
    texts = [f"customer {chr(97 + k)}" for k in range(12)]
    for data in (csv_of(tmp_path / "a.csv", texts), (np.zeros((12, 1)), texts)):
        with pytest.raises(
            InputError, match=r"most of them occur only once\. Received: 12 texts in 12 rows"
        ):
            load_data(data)
        assert load_data(data, 0, num_classes=12).num_classes == 12
    numbers = [str(k) for k in range(12)]
    with pytest.raises(InputError, match=r"numbers stored as text.*y.astype\(float\)"):
        load_data((np.zeros((12, 1)), numbers))
    with pytest.raises(InputError, match="Some labels are numbers, others are text"):
        load_data((np.zeros((12, 1)), ["1", "2", "low"] * 4))


def test_a_line_of_units_below_the_header_is_no_class(tmp_path):
    """The advice was to take all 61 texts as names of classes."""
    path = csv_of(tmp_path / "a.csv", ["[K]", *(f"{1.5 + k}" for k in range(60))])
    with pytest.raises(InputError, match=r"'\[K\]'\. Expected: numbers in all rows") as error:
        load_data(path)
    assert "num_classes" not in str(error.value)


def test_exponents_of_fortran_are_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1.5D+02,-2.D-1\n.5d1,3\n1D+1,4.5\n")
    data = load_data(tmp_path / "a.csv", 0)
    assert data.inputs[:, 0].tolist() == [150, 5, 10] and data.targets.tolist() == [-0.2, 3, 4.5]
    (tmp_path / "a.dat").write_text(" 0.15D+03  -0.2D+00\n 0.5D+01  3.0D+00\n")
    assert load_data(tmp_path / "a.dat", 0).inputs[:, 0].tolist() == [150, 5]
    for text in ("2D", "1D2", "D+02", "1.5D", "d20"):
        assert not is_number(text)
    with pytest.raises(InputError, match=r"x\.str\.replace\('D', 'E'\)"):
        load_data((np.zeros((20, 1)), ["1.5D+02", "2.5D+02"] * 10))
    assert number_in("-.5d-1") == -0.05


def test_words_are_no_numerals():
    words = "Marlboro 100,juniper 12,x,A1,T-800,iris, ,1st,decades,no. 7,covid-19,B-52,H2O"
    assert [word for word in words.split(",") if numeral_of(word)] == []
    assert numeral_of("9" * 50_000 + " cm" * 9) is None, "long cells take no time"


def test_true_and_false_in_several_spellings_are_numbers(tmp_path):
    path = csv_of(tmp_path / "a.csv", ["True", "TRUE", "false", "False"] * 5)
    assert load_data(path, 0).num_classes == 2


@pytest.mark.parametrize(("column", "place"), [("x", 0), ("x", 17), ("y", 17)])
def test_true_among_numbers_is_refused(tmp_path, column, place):
    """It was 1 in a column of lengths."""
    cells = [f"{number + 1.5}" for number in range(20)]
    cells[place] = "TRUE"
    other = [f"{number / 4 + 0.125}" for number in range(20)]
    texts = {"x": other, "y": other} | {column: cells}
    for separator in ",;":
        lines = [separator.join(row) for row in zip(texts["x"], texts["y"], strict=True)]
        text = "\n".join([f"x{separator}y", *lines, ""])
        (tmp_path / "a.csv").write_text(text.replace(".", "," if separator == ";" else "."))
        with pytest.raises(InputError, match=f"line {place + 2}: the cell in column '{column}'"):
            load_data(tmp_path / "a.csv")


def test_true_and_false_beside_0_and_1_are_numbers(tmp_path):
    assert (
        load_data(csv_of(tmp_path / "a.csv", ["1", "TRUE", "0", "false"] * 5), 0).num_classes == 2
    )
