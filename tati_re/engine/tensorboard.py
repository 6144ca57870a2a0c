"""The columns of run.csv as scalars of TensorBoard, while the run goes on."""

import io
from pathlib import Path

import numpy as np

from tati_re.core.files.cells import from_cell
from tati_re.runs import files
from tati_re.runs.storage import storing

_LABELS = ("step", "walker", "rung", "replica")


class TensorBoard:
    """Writes new rows of `run.csv` as scalars, as a callback of the driver after each flush; a
    target of None: nothing. Each walker (and on a ladder each rung) is a run of its own to
    TensorBoard, each column a tag. Event files are appended to, and stand outside of what a resumed
    run repeats byte for byte: they hold the time of day.
    """

    def __init__(self, target: str | None) -> None:
        self.target = None if target is None else Path(target)
        self._after = 0
        self._position = 0
        self._header = b""
        self._writers: dict = {}

    def begin(self, step: int) -> None:
        """Says which step the run goes on from: rows up to it were written before."""
        self._after = step

    def __call__(self, folder: Path, step: int) -> None:
        if self.target is None:
            return
        rows = self._new_rows(folder / files.ROWS)
        if rows is None:
            return
        from tati_re.core.backend import tf

        labels = [name for name in ("rung", "walker") if name in rows.columns]
        tags = [name for name in rows.columns if name not in _LABELS]
        metadata = tf.compat.v1.SummaryMetadata(data_class=1)  # 1 are scalars
        metadata.plugin_data.plugin_name = "scalars"
        with storing(self.target):
            for place, part in rows.groupby(labels):
                name = "-".join(
                    f"{label}{int(number)}" for label, number in zip(labels, place, strict=True)
                )
                if name not in self._writers:
                    self._writers[name] = tf.summary.create_file_writer(str(self.target / name))
                with self._writers[name].as_default():
                    self._write(tf, part, tags, metadata)
                self._writers[name].flush()

    @staticmethod
    def _write(tf, part, tags: list[str], metadata) -> None:
        values = part[tags].to_numpy(dtype=np.float32)
        steps = part["step"].to_numpy()
        for step, row in zip(steps, values, strict=True):
            summary = tf.compat.v1.Summary()
            for tag, value in zip(tags, row, strict=True):
                if value == value:
                    summary.value.add(tag=tag, metadata=metadata).tensor.CopyFrom(
                        tf.make_tensor_proto(value)
                    )
            # One call a row: a call for each number would cost more than the steps of a small
            # model.
            tf.summary.experimental.write_raw_pb(summary.SerializeToString(), step=int(step))

    def _new_rows(self, path: Path):
        import pandas

        if not path.exists():
            return None
        with path.open("rb") as file:
            if not self._header:
                self._header = file.readline()
                self._position = file.tell()
            file.seek(self._position)
            content = file.read()
        content = content[: content.rfind(b"\n") + 1]
        if not content:
            return None
        self._position += len(content)
        rows = pandas.read_csv(io.BytesIO(self._header + content)).rename(columns=from_cell)
        rows = rows[rows["step"] > self._after]
        return rows if len(rows) else None
