//! What Pillion's tests share.
