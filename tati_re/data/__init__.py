"""Data sets, their sources, and mini-batches; only the readers of TensorFlow's own formats import
TensorFlow.
"""

from tati_re.data.batches import Batches
from tati_re.data.dataset import Dataset
from tati_re.data.loading import dataset_from_options, load_data

__all__ = ["Batches", "Dataset", "dataset_from_options", "load_data"]
