"""The sockets that nodes opened: one session per node and admin, frames in, frames out."""
