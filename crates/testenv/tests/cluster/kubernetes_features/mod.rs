//! What versions of Kubernetes have: the table in docs/support.md, and what people are told about a cluster that is too old
//! (FIELD-4, FIELD-5).

mod table;
mod told;
