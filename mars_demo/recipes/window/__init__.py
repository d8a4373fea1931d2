"""Training on a GPU that is lent for 15 minutes: one command per call, rehearsed on a CPU before.

In the checkout:

    python -m mars_demo.recipes.window rehearse --machine PYTHON --base GGUF --own JSONL --work DIR
    python -m mars_demo.recipes.window prepare --base GGUF --own JSONL

On the machine, where each call returns what it writes to its own folder OUT:

| call | carries | command | seconds |
| --- | --- | --- | --- |
| 1 | .window/first | prove --output OUT | 215, the start of the machine included |
| 2 | .window/second | train --left SECONDS --output OUT | at most 595 |
| 3 | | measure --output OUT | 90 |
| 4 | | deliver 2 --output OUT | 40 |

SECONDS is the time for which the machine is still lent, read just before the call. Then, in the checkout:

    python -m mars_demo.recipes.window join OUT2 OUT3 OUT4 --output DIR
    python -m mars_demo.recipes.window restore

If a batch does not fit into memory or FlexAttention fails, `prove` tries other sizes and dense masks, and
`train` uses its choice. If the machine is gone after call 1, carry `first` again in a call that does
nothing, then go on with call 2, whose caches are cold. If time is short after call 2, `deliver 1` replaces
`measure`, because the pieces matter more.
"""
