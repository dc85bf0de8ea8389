"""Roofline scaling trajectories over the jobs of an experiment."""
