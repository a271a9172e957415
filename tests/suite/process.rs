//! Programs, and everything they leave running: the supervisor, and what decree makes of it.
