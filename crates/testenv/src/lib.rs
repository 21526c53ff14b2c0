//! A real API server on loopback.
