"""Data sets, where they come from, and mini-batches; nothing here imports TensorFlow."""

from tati_re.data.batches import Batches
from tati_re.data.dataset import Dataset
from tati_re.data.files import load_data

__all__ = ["Batches", "Dataset", "load_data"]
