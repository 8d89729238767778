"""``moorage-fetch``: a model from an object store, a registry or a web server onto a volume.

    URI -> source -> store.listing() -> [Entry] -> download -> unpack -> place
    text   pure      one class a store   plain      resumable   safe      one rename

It runs before the server, in an init container, and shares no code with it but the form of the log
lines. Every store is reduced to the same plain value, a list of files that each have a URL, and
one loop downloads them all: so that resuming, verifying, retrying and progress are the same for
every scheme. What goes wrong ends as one sentence for the user, `FetchError`.
"""
