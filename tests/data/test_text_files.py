"""Tables of text of others: empty columns at the end, sep=; lines, marks in .data and .txt files,
encodings, very long lines; tati-predict reads them as training does.
"""

from __future__ import annotations

import gzip
import time

import numpy as np
import pytest

from tati_re import Simulation, load
from tati_re.cli.dataset import main as tati_dataset
from tati_re.cli.predict import main as tati_predict
from tati_re.core.errors import InputError
from tati_re.data import load_data

INPUTS, VALUES = [[1.5, 2.0], [2.0, 3.0]], [3.5, 4.5]


def read(folder, text: str, name: str = "own.csv", encoding: str = "utf-8", **options):
    (folder / name).write_bytes(text.encode(encoding))
    return load_data(folder / name, 0, **options)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("own.csv", "a;b;y;;\n1,5;2;3,5;;\n2;3;4,5;;\n"),
        ("own.csv", "a,b,y,\n1.5,2,3.5,\n2,3,4.5,\n"),
        ("own.csv", "a,b,y\n1.5,2,3.5,\n2,3,4.5, ,\n"),
        ("own.csv", "a,b,y,,\n1.5,2,3.5\n2,3,4.5,\n"),
        ("own.csv", "a,,b,y\n1.5,,2,3.5\n2, ,3,4.5\n"),
        ("own.csv", ",a,b,y\n,1.5,2,3.5\n,2,3,4.5\n"),
        ("own.csv", '"a","b","y",\n"1.5","2","3.5",\n"2","3","4.5",""\n'),
        ("own.tsv", "a\tb\ty\t\n1.5\t2\t3.5\t\n2\t3\t4.5\t\n"),
        ("own.csv", "sep=;\na;b;y\n1,5;2;3,5\n2;3;4,5\n"),
        ("own.csv", '"sep=;"\r\na;b;y;\r\n1,5;2;3,5;\r\n2;3;4,5;\r\n'),
        ("own.csv", "SEP=\t\na\tb\ty\n1.5\t2\t3.5\n2\t3\t4.5\n"),
        ("own.csv", "sep=|\na|b|y\n1.5|2|3.5\n2|3|4.5\n"),
        ("own.csv", "a|b|y\n1.5|2|3.5\n2|3|4.5\n"),
        ("own.csv", 'a, "b", y\n1.5, "2", "3.5"\n "2",  "3",4.5\n'),
        ("own.csv", "a (x, y, z, w);b;y\n1.5;2;3.5\n2;3;4.5\n"),
        ("own.data", "1.5,2,3.5\n2,3,4.5\n"),
        ("own.data", "1.5|2|3.5\n2|3|4.5\n"),
        ("own.txt", "a, b,y\n1.5, 2,3.5\n2, 3,4.5\n"),
        ("own.txt", "a one,b two,y\n1.5,2,3.5\n2,3,4.5\n"),
        ("own.dat", "a;b;y\n1,5;2;3,5\n2;3;4,5\n"),
        ("own.txt", "a | b | y\n1.5 | 2 | 3.5\n2 | 3 | 4.5\n"),
        ("own.txt", "a b y\n1.5 2 3.5\n2 3 4.5\n"),
        ("own.txt", "1.5 2 3.5\n2 3 4.5\n"),
    ],
)
def test_tables_of_others_are_read(tmp_path, name, text):
    data = read(tmp_path, text, name)
    assert data.inputs.tolist() == INPUTS and data.targets.tolist() == VALUES
    with gzip.open(tmp_path / f"{name}.gz", "wb") as file:
        file.write(text.encode())
    assert load_data(tmp_path / f"{name}.gz", 0).fingerprint() == data.fingerprint()


def test_names_of_classes_between_commas_without_a_header(tmp_path):
    text = "5.1,3.5,setosa\n4.9,3.0,setosa\n6.0,3.0,virginica\n6.1,2.0,virginica\n"
    data = read(tmp_path, text, "iris.data")
    assert data.class_names == ("setosa", "virginica") and data.feature_names == ("x1", "x2")
    assert data.inputs.tolist() == [[5.1, 3.5], [4.9, 3], [6, 3], [6.1, 2]]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,b,y,\n1,2,3.5,\n2,3,4.5,7\n", r"without a name\. .*column 4 has none and is not empty"),
        (
            "a,b,y\n1,2,3.5,\n2,3,4.5,9\n",
            r"line 3 has the wrong number of cells\. Received: 4\. Ex",
        ),
        (
            "a,b,y\n1,2,3.5,,9\n",
            r"line 2 has the wrong number of cells\. Received: 5\. Expected: 3",
        ),
        ("a,b,y,\n1,2,3.5,\n2,3,\n", r"line 3: the cell in column 'y' is not a finite number"),
        ("a,b,y,\n1,2,3.5,\n2,3\n", r"line 3 has .* Received: 2\. Expected: 4, 1 of them without"),
        ("sep=;\na,b,y\n1,2,3.5\n", r"single column"),
        ('a,b,y\n1,2,3.5\n1,"2\n",3.5\n', r"line 3: a cell in quotes does not end on this line"),
        ('"a\n(m)",b,y\n1,2,3.5\n', r"csv, header: a cell in quotes does not end on this line"),
    ],
)
def test_cells_without_a_column_are_named(tmp_path, text, sentence):
    for options in ({}, {"input_columns": ["a"]}):
        if options and "without a name" in sentence:
            assert read(tmp_path, text, **options).feature_names == ("a",)
            continue
        with pytest.raises(InputError, match=sentence):
            read(tmp_path, text, **options)


def test_rows_of_unequal_lengths_are_refused_where_columns_are_chosen(tmp_path):
    """Columns that were not chosen hid what a row has too much."""
    for name, mark in (("own.csv", ","), ("own.txt", " ")):
        text = "a,b,c,y\n1,2,3,4.5\n1,2,3,4,5.5\n".replace(",", mark)
        with pytest.raises(InputError, match=r"line 3 has the wrong number of cells\. Received: 5"):
            read(tmp_path, text, name, input_columns=["a"])


@pytest.mark.parametrize("cell", ["1", '"1"', "x"])
def test_a_line_of_many_cells_is_refused_at_once(tmp_path, cell):
    """.7 ms a cell too much would be minutes."""
    header = ",".join("abcdefghijkl")
    row = ",".join("1" * 12)
    text = f"{header}\n{row}\n{','.join([cell] * 300_000)}\n"
    start = time.process_time()
    with pytest.raises(InputError, match=r"line 3 .* Received: 300000\. Expected: 12"):
        read(tmp_path, text)
    assert time.process_time() - start < 10


def test_a_byte_of_windows_is_told_from_latin_1(tmp_path):
    """Its 0x80 is the euro sign; in Latin-1 it is a control character."""
    (tmp_path / "own.csv").write_bytes("x,y\n1,€\n".encode("cp1252"))
    with pytest.raises(InputError, match=r"line 2 .*the byte 0x80\. Expected: encoding = 'cp1252'"):
        load_data(tmp_path / "own.csv", 0)


@pytest.mark.parametrize(
    ("encoding", "sentence"),
    [
        ("latin-1", r"own\.csv, line 1 is not UTF-8 text\. Received: the byte 0xf6\..*latin-1"),
        ("cp1252", r"line 1 .*0xf6"),
        ("utf-16", r"line 1 .*the byte 0xff\. Expected: encoding = 'utf-16'"),
        ("utf-32", r"line 1 .*the byte 0xff\. Expected: encoding = 'utf-32'"),
        ("utf-16-le", r"line 1 .*the byte 0x00\. Expected: encoding = 'utf-16-le' or 'utf-16-be'"),
        ("utf-16-be", r"line 1 .*the byte 0x00\. Expected: encoding = 'utf-16-le' or 'utf-16-be'"),
    ],
)
def test_other_encodings_are_named_or_read(tmp_path, encoding, sentence):
    text = "größe,b,y\n1.5,2,3.5\n2,3,4.5\n"
    if encoding.startswith("utf-16-"):
        text = text.replace("größe", "grosse")
    with pytest.raises(InputError, match=sentence):
        read(tmp_path, text, encoding=encoding)
    (tmp_path / "own.csv").write_bytes(text.encode(encoding))
    data = load_data(tmp_path / "own.csv", 0, encoding=encoding)
    assert data.inputs.tolist() == INPUTS and data.feature_names[0] == text.split(",")[0]
    assert load_data(tmp_path / "own.csv", 0, encoding=encoding, test_data=tmp_path / "own.csv")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_zeros_between_letters_say_utf_16_before_the_first_other_letter(tmp_path, encoding):
    with pytest.raises(InputError, match=r"Expected: encoding = 'utf-16-le' or 'utf-16-be'"):
        read(tmp_path, "größe,b,y\n1.5,2,3.5\n", encoding=encoding)


@pytest.mark.parametrize("zeros", ["1,2\0,3", "\0\0\0\0\0\0\0\0", "1,2,3\0\0\0\0\0\0\0"])
def test_zeros_of_a_damaged_file_are_no_encoding(tmp_path, zeros):
    """The block that was not written when a disk was full, or one cell."""
    with pytest.raises(InputError, match=r"line 3 .*the byte 0x00\. Expected: a file without zero"):
        read(tmp_path, f"a,b,y\n1,2,3\n{zeros}\n4,5,6\n")


def test_the_line_and_the_byte_of_another_encoding(tmp_path):
    with pytest.raises(InputError, match=r"line 5 is not UTF-8 text\. Received: the byte 0xe9"):
        read(tmp_path, "x,y\n1,b\n2,b\n3,b\n4,é\n", encoding="latin-1")
    (tmp_path / "own.csv").write_text("x,y\n1,é\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"line 2 is not ascii text"):
        load_data(tmp_path / "own.csv", 0, encoding="ascii")


HEADS = {
    "an Excel workbook or another zip archive": b"PK\x03\x04\x14",
    "an Excel workbook of an old format": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    "a Parquet file": b"PAR1\x15\x04",
    "an HDF5 file": b"\x89HDF\r\n",
    "a file compressed by gzip": b"\x1f\x8b\x08",
    "a PDF document": b"%PDF-1.4\n%\xe2\xe3\n",
}


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("encoding", [None, "latin-1"])
def test_other_files_that_are_named_like_tables(tmp_path, kind, encoding):
    """The advice was another encoding."""
    (tmp_path / "own.csv").write_bytes(HEADS[kind] + b"\n" + bytes(range(256)))
    sentence = rf"own\.csv is not a table of text\. Received: {kind}\."
    with pytest.raises(InputError, match=sentence):
        load_data(tmp_path / "own.csv", encoding=encoding)


@pytest.mark.parametrize("name", ["utf-99", "hex", "rot13", "a\0b"])
def test_an_encoding_that_is_not_known(tmp_path, name):
    (tmp_path / "own.csv").write_text("x,y\n1,2.5\n")
    with pytest.raises(InputError, match="encoding: unknown name"):
        load_data(tmp_path / "own.csv", 0, encoding=name)
    for data in (np.zeros((2, 1)), [0.5, 1.5]), "digits":
        with pytest.raises(InputError, match="encoding applies only to text tables"):
            load_data(data, encoding="latin-1")


@pytest.mark.parametrize("end", ["xlsx", "xls", "ods"])
def test_spreadsheets_say_how_they_are_read(tmp_path, end):
    (tmp_path / f"a.{end}").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"spreadsheets .*data=pandas\.read_excel.*\.csv file"):
        load_data(tmp_path / f"a.{end}")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("a.json", r"in Python data = pandas\.read_json\('"),
        ("a.feather", r"in Python data = pandas\.read_feather\('"),
        ("a.npy", r"in Python data = \(inputs, labels\), two arrays of numpy\.load"),
        ("a.zip", "unpack the archive first"),
    ],
)
def test_files_of_other_kinds_say_how_they_are_read(tmp_path, name, sentence):
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(InputError, match=rf"file of an unknown type\. .*{sentence}"):
        load_data(tmp_path / name)


def test_predict_reads_a_table_as_training_did(tmp_path, capsys):
    rows = [(0.5 * k, 0.25 * k % 1, 1.5 * k) for k in range(24)]
    lines = [";".join(f"{cell:g}".replace(".", ",") for cell in row) + ";" for row in rows]
    text = "\n".join(["sep=;", "größe;b;y;", *lines, ""])
    (tmp_path / "own.csv").write_bytes(text.encode("latin-1"))
    steps = {"sampler": "BAOAB", "step_size": 0.01, "num_steps": 20, "trajectory_every": 2}
    options = {"hidden": [2], "seed": 1, "verbose": 0, "encoding": "latin-1"}
    sim = Simulation(data=str(tmp_path / "own.csv"), **options)
    sim.sample(output=tmp_path / "run", execution="graph", **steps)
    assert load(tmp_path / "run").predict().targets.shape[1] == 1
    command = [str(tmp_path / "run"), "--data", str(tmp_path / "own.csv"), "--overwrite", "--quiet"]
    assert tati_predict(command) == 0
    (tmp_path / "own.csv").write_bytes(text.encode("utf-16"))
    assert tati_predict([*command, "--encoding", "utf-16"]) == 0
    assert tati_predict([*command, "--encoding", "utf-8"]) == 2
    assert "line 1 is not utf-8 text" in capsys.readouterr().err
    assert tati_dataset([str(tmp_path / "own.csv"), "--encoding", "utf-16"]) == 0
    assert "größe" in capsys.readouterr().out
