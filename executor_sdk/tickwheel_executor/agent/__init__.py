"""The program `tickwheel-agent`: a node that offers what its configuration file allows."""
