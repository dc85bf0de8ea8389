"""Spans that trainings send by OpenTelemetry's protocol while they run, as steps and phases."""
