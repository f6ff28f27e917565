//! What the gate promises, tried from outside.
#![cfg(test)]

mod calls;
mod chain;
mod compiled;
mod demo;
mod documented;
mod ground;
mod json;
mod laws;
mod lineage;
mod office;
mod permit;
mod policies;
mod render;
mod scene;
