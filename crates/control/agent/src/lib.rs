//! A node's half of the control plane.
