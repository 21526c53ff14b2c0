//! The standalone admission server: the same module over HTTPS, for clusters without Kubewarden.
