#!/usr/bin/env bash
# A command line of TATi from end to end. Only the names of the commands are changed: TATiDatasetWriter, TATiOptimizer,
# TATiSampler and TATiAnalyser are tati-dataset, tati-optimize, tati-sample and tati-analyse.
#
#   bash examples/coming_from_tati.sh FOLDER     # default: runs/coming_from_tati
set -euo pipefail
mkdir -p "${1:-runs/coming_from_tati}"
cd "${1:-runs/coming_from_tati}"

tati-dataset \
    --data_type 2 --dimension 500 --noise 0.1 --seed 426 \
    --train_test_ratio 0 --test_data_files dataset-twoclusters.csv

tati-optimize \
    --batch_data_files dataset-twoclusters.csv \
    --batch_size 50 \
    --loss mean_squared \
    --learning_rate 1e-2 \
    --max_steps 1000 \
    --every_nth 100 \
    --optimizer GradientDescent \
    --output_activation linear \
    --run_file training-run.csv \
    --trajectory_file training-trajectory.csv \
    --save_model "$(pwd)/model.ckpt.meta" \
    --seed 426 \
    -v

tati-sample \
    --batch_data_files dataset-twoclusters.csv \
    --batch_size 50 \
    --every_nth 10 \
    --friction_constant 10. \
    --inverse_temperature 10. \
    --loss mean_squared \
    --max_steps 5000 \
    --output_activation linear \
    --restore_model "$(pwd)/model.ckpt.meta" \
    --run_file sampling-run.csv \
    --averages_file averages.csv \
    --trajectory_file sampling-trajectory.csv \
    --sampler GeometricLangevinAlgorithm_2ndOrder \
    --seed 426 \
    --step_width 0.05 \
    -v

tati-analyse \
    average_energies average_trajectory covariance \
    --run_file sampling-run.csv \
    --trajectory_file sampling-trajectory.csv \
    --drop_burnin 500 \
    --every_nth 1 \
    --steps 10 \
    --average_run_file average_run.csv \
    --average_trajectory_file average_trajectory.csv \
    --covariance_eigenvalues eigenvalues.csv \
    -v
