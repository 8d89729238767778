"""What `benchmarks/run.py` measures, and with what. Pure: figures, report, wire, http_answer."""
