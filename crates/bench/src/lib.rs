//! What an admission costs.
