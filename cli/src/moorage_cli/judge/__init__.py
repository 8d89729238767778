"""Turns what was read into reports: model status, causes of failures, traffic and supported
protocols; pure. Reading belongs in `ask`, the layout of tables in `printing`.
"""
