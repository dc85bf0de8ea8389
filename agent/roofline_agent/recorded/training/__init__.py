"""Logs of training programs that say how fast they are: tf_cnn_benchmarks and Keras."""
