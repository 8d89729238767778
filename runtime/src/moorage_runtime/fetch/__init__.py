"""The program `moorage-fetch`, which downloads a model to a volume before the server starts.

It shares only the log format with the server. It is nevertheless part of the server's distribution
and image. With an image of its own, every node would pull a second image before a model starts,
and every private registry would mirror, scan and sign one more. In the server's image it costs
0.2 MB of code and 20 MB of libraries (urllib3, google-auth and cryptography).
"""
