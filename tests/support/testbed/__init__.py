"""A testbed for whole histories of the operator: a real control plane with its controllers,
kubelets with real probes, and model servers that answer inferences.

The suites of faults and transitions use it. It is independent of the operator's decisions.
"""
