"""Pods as the controllers of training jobs make them, and what the webhook makes of them."""
