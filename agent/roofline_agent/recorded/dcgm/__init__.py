"""The text of dcgm-exporter; the live source reads it with this too."""
