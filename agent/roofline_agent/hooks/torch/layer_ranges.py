"""What ranges of layers are called in a trace of PyTorch: by who makes them (layers.py), and who reads
them, which has no need of the hooks (recorded/traces/layers.py)."""

LAYER = "roofline.layer "
