//! The tests on a real API server: one module for each subject (testenv/README.md). `testenv/run-tests` runs each module
//! in a process of its own, because the tests of a module share an API server that other modules would disturb.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

mod alerts;
mod api;
mod chart;
mod chart_life;
mod cleanup;
mod controller;
mod controller_bundle;
mod controller_loops;
mod controller_merged;
mod controller_scale;
mod controller_tokens;
mod crash;
mod gitops;
mod installation;
mod kustomize;
mod manifests;
mod pages;
mod plan;
mod preview;
mod recipes;
mod rollout;
mod rollout_deadline;
mod rollout_recreate;
mod rollout_resize;
mod rollout_rights;
mod scale;
mod serve_certificates;
mod serve_conformance;
mod serve_failure;
mod serve_identities;
mod serve_injection;
mod serve_merged;
mod serve_sidecarsets;
mod serve_timeouts;
mod serve_trust_anchors;
mod support;
mod uninstall;
mod verbs_read;
mod verbs_write;
mod webhooks;
mod workflows;
mod workload_pods;
mod workloads;
mod yaml;
