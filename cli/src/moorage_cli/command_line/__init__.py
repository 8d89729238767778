"""The commands and their arguments, and the help, shell completion and reference page that are
generated from them; pure. What a command does belongs in `commands`.
"""
