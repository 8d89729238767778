"""Moorage operator: keeps a workload for each InferenceModel and its status true."""
