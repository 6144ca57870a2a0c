"""A script of TATi from end to end: write a data set, optimize, sample, analyse.

Only the import lines are changed; in TATi they read

    from TATi.common import data_numpy_to_csv
    from TATi.datasets.classificationdatasets import ClassificationDatasets
    from TATi.simulation import Simulation as tati

The averages at the end lie where exp(-beta L) has them: for a quadratic loss the mean of the loss
is its minimum plus P/(2 beta), P = 3 parameters.
"""

import numpy as np

from tati_re.coming_from_tati import ClassificationDatasets, data_numpy_to_csv
from tati_re.coming_from_tati import Simulation as tati

np.random.seed(426)
dataset_generator = ClassificationDatasets()
features, labels = dataset_generator.generate(
    dimension=500, noise=0.1, data_type=dataset_generator.TWOCLUSTERS
)
data_numpy_to_csv(features, labels, "dataset-twoclusters.csv")

nn = tati(
    batch_data_files=["dataset-twoclusters.csv"],
    batch_size=500,
    every_nth=10,
    hidden_dimension=[],
    input_dimension=2,
    learning_rate=3e-2,
    loss="mean_squared",
    max_steps=1000,
    optimizer="GradientDescent",
    output_activation="linear",
    output_dimension=1,
    seed=426,
)
training_data = nn.fit()
print(training_data.run_info[-3:])
print("Parameters at the minimum:", np.asarray(nn.parameters))
print("Loss and norm of the gradient:", nn.loss(), np.linalg.norm(nn.gradients()))

beta = 10.0
nn.set_options(
    sampler="BAOAB",
    step_width=0.2,
    friction_constant=10.0,
    inverse_temperature=beta,
    max_steps=20000,
    burn_in_steps=1000,
)
minimum = nn.loss()
sampling_data = nn.sample()
kept = sampling_data.run_info[sampling_data.run_info["step"] > 1000]
print("Average loss:", kept["loss"].mean(), "expected:", minimum + nn.num_parameters() / (2 * beta))
positions = np.asarray(sampling_data.trajectory)[:, 4:]
print("Average parameters:", positions.mean(axis=0))
print("Predictions:", np.asarray(nn.predict(features[:3])).ravel(), "labels:", labels[:3].ravel())
