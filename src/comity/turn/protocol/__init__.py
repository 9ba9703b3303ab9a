"""The messages and the rules of STUN and TURN, without sockets."""
