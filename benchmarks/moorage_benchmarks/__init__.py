"""What `benchmarks/run.py` measures, and with what.

Pure: figures, latency_plot, report, wire, http_answer.
"""
