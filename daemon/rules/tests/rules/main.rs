//! The operator's rules, after the gate.
#![cfg(test)]
#![cfg(feature = "cedar")]

mod asking;
mod hostile;
mod loading;
mod narrowing;
mod scene;
