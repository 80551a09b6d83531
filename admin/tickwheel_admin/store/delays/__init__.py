"""Who delays whom: runs, nodes and pools as the charging of delays looks at them."""
