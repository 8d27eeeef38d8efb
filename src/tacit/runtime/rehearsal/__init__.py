"""A job rehearsed on this machine: every operation beside float64, and its cost by module.

All parties are threads of one process and run the job as it is. Each call of torch on secrets
passes an observer of its party (`observer.py`). Together the threads know every secret, so that its
value is read without opening it (`holdings.py`), and compared with a float64 twin (`twins.py`,
`twin_comparison.py`). What each party sends, receives and computes is counted beside it
(`meter.py`), and tells how long the job takes on other networks (`forecast.py`). `rehearse.py` runs
all of it.
"""
