"""Plain values that packages exchange: observations, answers of servers, and plans.

Decisions, queries, watches and writes belong to the packages above. Pure.
"""
