"""Background loops, each one class with a run_once() that tests call directly.

planner: triggers → queued runs · dispatcher: queued → dispatched, sent · recorder: what nodes say →
moves · sweeper: what is past its deadline · leases: who is alive · cleaner: what is old ·
rollup: figures of hours.
Clock, randomness, store and transport are parameters; nothing here asks the process for the time.
"""
