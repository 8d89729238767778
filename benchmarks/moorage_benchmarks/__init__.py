"""What `benchmarks/run.py` measures, and with what.

Pure: figures, gate, latency_plot, report, wire, http_answer.
"""
