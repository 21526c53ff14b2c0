//! Which of several replicas works: the one that holds the Lease.
