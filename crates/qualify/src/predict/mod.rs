//! What a planned experiment asks of a hop.
