"""The steps from one version of the schema to the next, run by `store.database.migrate`.

Rules for a step (`versions/NNNN_what_it_does.py`): explicit operations, nothing imported from
`store.database.tables`, which changes later. It must also be right when run again after it was cut
off in the middle, because on MySQL every DDL statement commits by itself: use `steps`.
"""
