"""What of the traced steps the layers of the model took."""
