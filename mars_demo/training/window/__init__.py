"""Training on a GPU that is lent for 15 minutes: one command per call, rehearsed on a CPU before.

In the checkout:

    python -m mars_demo.training.window rehearse --machine PYTHON --base GGUF --own JSONL --work DIR
    python -m mars_demo.training.window prepare --base GGUF --own JSONL

On the machine, where each call returns what it writes to OUT:

| call | carries | command | seconds |
| --- | --- | --- | --- |
| 1 | .window/first | prove --output OUT | 215, the start of the machine included |
| 2 | .window/second | train --left SECONDS --output OUT | at most 595 |
| 3 | | measure --output OUT | 90 |
| 4 | | deliver 2 --output OUT | 40 |

Then, in the checkout again, `join RETURNED... --output DIR` and `restore`.
"""
