"""What the supervisor and the workers share: messages, the state of the whole server and summed
metrics; pure. Processes and sockets belong in `workers`.
"""
