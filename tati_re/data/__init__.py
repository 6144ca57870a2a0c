"""Data sets, where they come from, and mini-batches; TensorFlow is imported only by what reads its own formats."""

from tati_re.data.batches import Batches
from tati_re.data.dataset import Dataset
from tati_re.data.loading import dataset_from_options, load_data

__all__ = ["Batches", "Dataset", "dataset_from_options", "load_data"]
