"""The bridge to executors that speak the protocol of XXL-JOB: they listen, and are called.

Nothing else in the server knows that protocol: towards the engine a `node.XxlNode` is what the
socket of a node is (`engine.ports`), and it speaks the messages of `tickwheel_shared.protocol`.
"""
