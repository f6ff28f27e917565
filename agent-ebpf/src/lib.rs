//! Being built.
#![no_std]
