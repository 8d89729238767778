"""Which InferenceRuntime a model uses, what it becomes with it, and when it follows an edit.

Nothing here plans objects: `decide.plan` gets a whole model. Pure.
"""
