"""A driver per protocol and transport, which converts requests and answers.

A driver does not judge an answer and does not decide when to poll; `decide` and `schedule` do.
"""
