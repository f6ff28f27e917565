//! What the gate promises, tried from outside.
#![cfg(test)]

mod calls;
mod demo;
mod documented;
mod json;
mod policies;
mod scene;
