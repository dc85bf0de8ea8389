"""Logs in which training programs print how fast they are: tf_cnn_benchmarks and Keras."""
