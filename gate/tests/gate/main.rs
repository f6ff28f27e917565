//! What the gate promises, tried from outside.
#![cfg(test)]

mod calls;
mod demo;
mod documented;
mod json;
mod laws;
mod policies;
mod render;
mod scene;
