"""MARS (arXiv 2604.07023) in vLLM, on its extension points, without patches.

The outputs of masks, which are speculative tokens for vLLM, are the next drafts. Lossless requests verify
them. With τ, only outputs that score at least τ become drafts: the accepted slots of MARS, which vLLM
returns one forward later, when the KV cache has the tokens and not the masks.
"""
