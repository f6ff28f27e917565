//! What the gate promises, tried from outside.
#![cfg(test)]

mod approval;
mod attacks;
mod boundary;
mod branches;
mod calls;
mod chain;
mod compiled;
mod delegation;
mod demo;
mod disclosed;
mod documented;
mod ground;
mod json;
mod laws;
mod lease;
mod lineage;
mod meaning;
mod office;
mod operator;
mod peers;
mod permit;
mod policies;
mod properties;
mod read_back;
mod render;
mod scene;
mod sshsig;
mod vectors;
