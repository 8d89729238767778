"""Decides when to poll which replica, within a budget that tenants share fairly.

How a query is sent belongs to `protocols`, and what the answers mean to `decide`.
"""
