"""MARS (arXiv 2604.07023) in vLLM, on its extension points, without patches.

A forward computes `[last token, drafts, MASK × B]`, and the outputs of the masks are the drafts of the next
forward; vLLM sees all of them as speculative tokens. A lossless request, the default, verifies its drafts.
A request with a threshold τ accepts them all, since only outputs that score at least τ, from the left,
become its drafts. They are the accepted slots of MARS, which vLLM returns one forward later, when the KV
cache has the tokens and not the masks.
"""
